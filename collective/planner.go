package collective

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
	"github.com/treerun/treerun/transport"
)

// planner makes the plans of a communicator: AllReduce over one tree for small
// messages and over one tree per rank for large ones, from the size on where
// the simulator prices the latter lower; Broadcast and Reduce over the tree of
// their root. Everything follows from the graph and the settings, which are the
// same on all ranks.
type planner struct {
	rank, size       int
	graph            *topo.Graph
	machine          sim.Machine // what the plans will run on
	trees            []topo.Tree // by root
	smallRoot        int         // of the tree of small
	small, large     *plan.Plan  // AllReduce
	largeFrom        int         // bytes
	slots, slotBytes int
	links            *exec.Links

	allReduce [2]*exec.Program // small, large
	barrier   *exec.Program
	byRoot    map[plan.Kind][]*exec.Program // Broadcast and Reduce, made at their first call
}

func newPlanner(g *topo.Graph, rank int, cfg *config) (*planner, error) {
	p := &planner{rank: rank, size: g.Ranks, graph: g, slots: cfg.slots, slotBytes: cfg.slotBytes}
	if p.slots == 0 {
		p.slots, p.slotBytes = slotShape(p.size, 2*(p.size-1)*p.size)
	}
	p.machine = sim.Executor(p.slots, p.slotBytes, cfg.cores)
	var err error
	if p.trees, err = treesOf(g); err != nil {
		return nil, fmt.Errorf("trees: %w", err)
	}
	if err := p.buildSmall(); err != nil {
		return nil, err
	}
	if p.large, err = p.build(plan.AllReduce, p.trees, plan.Split); err != nil {
		return nil, err
	}
	if p.largeFrom = cfg.multiFrom; p.largeFrom < 0 {
		p.largeFrom, err = p.crossover()
	}
	return p, err
}

// treesOf returns one tree per root. Where all links are alike the trees share
// them evenly by construction. Elsewhere they are improved jointly for as many
// ranks as that takes some milliseconds, and made one after the other, with
// MXNet's penalty on used links, for more: every rank does this at its start.
func treesOf(g *topo.Graph) ([]topo.Tree, error) {
	switch {
	case g.IsUniform():
		return tree.All(g)
	case g.Ranks <= jointRanks:
		return tree.Multi(g)
	default:
		return tree.KLAll(g, tree.LinkUsagePenalty, tree.KLOptions{})
	}
}

const jointRanks = 8

// buildSmall makes the plan for small messages: of the single trees, the one
// that brings eight bytes round the quickest.
func (p *planner) buildSmall() error {
	best := 0.0
	for root := range p.trees {
		made, err := p.build(plan.AllReduce, p.trees[root:root+1], plan.Single)
		if err != nil {
			return err
		}
		us := 0.0
		if p.size > 1 {
			if us, err = p.price(made, 8); err != nil {
				return err
			}
		}
		if p.small == nil || us < best {
			p.small, p.smallRoot, best = made, root, us
		}
		if p.graph.IsUniform() || p.size > jointRanks {
			break // the others are the same tree with other ranks, or too many
		}
	}
	return nil
}

// price returns what a message of so many bytes takes with plan m, in
// microseconds.
func (p *planner) price(m *plan.Plan, bytes int64) (float64, error) {
	r, err := sim.Price(m, p.graph, bytes, p.machine)
	if err != nil {
		return 0, fmt.Errorf("price of plan %s: %w", m.Name, err)
	}
	return r.Us, nil
}

// build makes a plan and, on rank 0, proves it: the other ranks run the same
// one, which their digests tell.
func (p *planner) build(kind plan.Kind, trees []topo.Tree, form plan.Form) (*plan.Plan, error) {
	made, err := plan.FromTrees(kind, trees, nil, plan.Options{Form: form})
	if err != nil {
		return nil, fmt.Errorf("%s plan: %w", kind, err)
	}
	if p.rank == 0 {
		if err := plan.Verify(made, minSlots); err != nil {
			return nil, fmt.Errorf("%s plan %s: %w", kind, made.Name, err)
		}
	}
	return made, nil
}

// minSlots is the number of slots per link with which plans are verified. A
// plan that cannot get stuck with so few cannot with more.
const minSlots = 2

// slotShape spreads linkBudget bytes per rank over the slots of all links.
func slotShape(size, links int) (slots, bytes int) {
	slots = 8
	if links == 0 {
		return slots, quantumBytes
	}
	bytes = linkBudget * size / (links * slots)
	bytes = min(max(bytes&^(quantumBytes-1), minSlotBytes), maxSlotBytes)
	return slots, bytes
}

const (
	linkBudget   = 4 << 20 // bytes of slots per rank
	minSlotBytes = 1 << 10
	maxSlotBytes = 32 << 10 // a chunk, its source and its destination stay in a core's cache
	quantumBytes = 64
)

// crossover returns the size in bytes from which one tree per rank is priced
// lower than a single tree: the least power of two where it is, or the largest
// that is tried.
func (p *planner) crossover() (int, error) {
	const least, most = 8, 20 // 256 B and 1 MiB, as powers of two
	if p.size == 1 {
		return 0, nil
	}
	lo, hi := least, most
	for lo < hi {
		mid := (lo + hi) / 2
		one, err := p.price(p.small, 1<<mid)
		if err != nil {
			return 0, err
		}
		all, err := p.price(p.large, 1<<mid)
		if err != nil {
			return 0, err
		}
		if all <= one {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return 1 << lo, nil
}

// layout returns the links of all plans: lane i has the links of the tree with
// root i, both ways.
func (p *planner) layout() transport.Layout {
	l := transport.Layout{Size: p.size, Slots: p.slots, SlotBytes: p.slotBytes}
	for i, t := range p.trees {
		for v, parent := range t.Parent {
			if parent >= 0 {
				l.Links = append(l.Links,
					transport.Link{Lane: i, Src: v, Dst: parent},
					transport.Link{Lane: i, Src: parent, Dst: v})
			}
		}
	}
	return l
}

// bind looks up the links of the plans that every communicator uses.
func (p *planner) bind(k *exec.Links) (err error) {
	p.links = k
	if p.allReduce[0], err = exec.Bind(p.small, k, []int{p.smallRoot}); err != nil {
		return err
	}
	if p.allReduce[1], err = exec.Bind(p.large, k, sequence(p.size)); err != nil {
		return err
	}
	barrier, err := p.build(plan.Barrier, p.trees[:1], plan.Single)
	if err != nil {
		return err
	}
	if p.barrier, err = exec.Bind(barrier, k, []int{0}); err != nil {
		return err
	}
	p.byRoot = map[plan.Kind][]*exec.Program{
		plan.Broadcast: make([]*exec.Program, p.size),
		plan.Reduce:    make([]*exec.Program, p.size),
	}
	return nil
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// program returns the program for a call of so many bytes.
func (c *Comm) program(kind plan.Kind, root, bytes int) (*exec.Program, error) {
	p := c.plans
	switch kind {
	case plan.Barrier:
		return p.barrier, nil
	case plan.AllReduce:
		if bytes >= p.largeFrom {
			return p.allReduce[1], nil
		}
		return p.allReduce[0], nil
	}
	if pr := p.byRoot[kind][root]; pr != nil {
		return pr, nil
	}
	made, err := p.build(kind, p.trees[root:root+1], plan.Split)
	if err != nil {
		return nil, err
	}
	pr, err := exec.Bind(made, p.links, []int{root})
	if err != nil {
		return nil, err
	}
	p.byRoot[kind][root] = pr
	return pr, nil
}

// digest is the same on two ranks when all their plans are.
func (p *planner) digest() string {
	return fmt.Sprintf("%s,%s,from %d", p.small.Digest(), p.large.Digest(), p.largeFrom)
}

func layoutDigest(l *transport.Layout) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d\n", l.Size, l.Slots, l.SlotBytes)
	for _, k := range l.Links {
		fmt.Fprintf(h, "%d %d %d\n", k.Lane, k.Src, k.Dst)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
