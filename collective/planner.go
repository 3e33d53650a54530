package collective

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
	"github.com/treerun/treerun/transport"
)

// planner chooses and makes the plans of a communicator: for each collective
// and size the shape that the simulator prices lowest on the measured graph. Everything follows from the graph and the settings,
// which are the same on all ranks.
type planner struct {
	rank, size int
	graph      *topo.Graph
	machine    sim.Machine // what the plans will run on
	pricer     *sim.Pricer // on graph
	only       *shape      // of several hosts: the one to take wherever it fits
	slim       *planner    // of one rank on every host, by which plans over hosts are priced where there are many ranks
	trees      []topo.Tree // by root, on one host
	hosts      *hosts      // where there are several
	smallRoot  int         // of the tree for small messages
	offered    []shape     // whose lanes are open
	first      []plan.Kind // chosen for when the communicator is made: by rank 0, for all
	devices    bool        // it plans for devices
	forced     *shape      // of WithPlan
	most       int64       // bytes of the largest message that is priced

	slots, slotBytes int
	heapBytes        int // per rank
	lanes            lanes
	links            *exec.Links

	choices [plan.AllToAll + 1][]choice           // by kind, by size; nil until the first call
	made    [plan.AllToAll + 1][allShapes][]*made // by root, or one
}

// choice is the shape for messages below a size, in bytes of one rank's result.
type choice struct {
	below  int
	shape  shape
	chunks exec.Chunks
	us     float64 // price at the least size that was tried
}

// newPlanner makes the planner of a rank. With a decision it takes the trees and
// choices from there, without one it makes them.
func newPlanner(g *topo.Graph, rank int, cfg *config, d *decision) (*planner, error) {
	g, level := levelled(g, cfg.boxes)
	p := &planner{rank: rank, size: g.Ranks, graph: g, slots: cfg.slots, slotBytes: cfg.slotBytes, heapBytes: cfg.heapBytes, first: firstKinds, most: mostPriced, forced: cfg.shape}
	if cfg.devices != nil {
		p.devices, p.first, p.most = true, deviceKinds, mostOnDevice
	}
	var err error
	if p.pricer, err = sim.NewPricer(g); err != nil {
		return nil, err
	}
	if p.hosts = newHosts(g); p.hosts != nil {
		p.hosts.level = level
		return p, p.planHosts(cfg, d)
	}
	if d != nil {
		if p.trees, err = d.trees(g.Ranks); err != nil {
			return nil, err
		}
	} else if p.trees, err = treesOf(g); err != nil {
		return nil, fmt.Errorf("trees: %w", err)
	}
	p.offer(cfg)
	if p.slots == 0 {
		p.slots, p.slotBytes = slotShape(p.size, len(p.lanes.links))
		if p.devices {
			p.slots, p.slotBytes = deviceSlots(p.size, len(p.lanes.links), cfg.devices.stagingBytes)
		}
	}
	p.machine = p.machineOf(cfg)
	if d != nil {
		return p, p.follow(d)
	}
	if err := p.pickRoot(); err != nil {
		return nil, err
	}
	return p, p.chooseFirst()
}

// firstKinds are the collectives whose choices every communicator needs.
var firstKinds = []plan.Kind{plan.AllReduce, plan.Barrier}

// machineOf returns what the plans will run on.
func (p *planner) machineOf(cfg *config) sim.Machine {
	if p.devices {
		return sim.Device(p.slots, p.slotBytes)
	}
	return sim.Executor(p.slots, p.slotBytes, cfg.cores)
}

// chooseFirst makes the choices that every communicator needs.
func (p *planner) chooseFirst() (err error) {
	for _, kind := range p.first {
		if p.choices[kind], err = p.choose(kind); err != nil {
			return err
		}
	}
	return nil
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

// directRanks is up to how many ranks every pair of them has links of its own
// for each that owns a slice.
//
// pairRanks is up to how many have one for Gather, Scatter, AllToAll, Send and
// Recv, and on several hosts for AllGather and ReduceScatter: the links' memory
// grows with the square of the ranks.
const (
	directRanks = 16
	pairRanks   = 128
)

// offer opens the lanes that plans may use. Where every pair of ranks has a
// link of its own, and all are alike, trees have nothing to offer that plans
// without a rank in between do not do in fewer steps.
func (p *planner) offer(cfg *config) {
	small := p.size <= directRanks
	switch {
	case cfg.shape != nil:
		p.offered = []shape{*cfg.shape}
	case !small:
		p.offered = []shape{oneTree, allTrees}
	case p.graph.IsUniform():
		p.offered = []shape{flat, directOne, directMany, starShape}
	default:
		p.offered = []shape{flat, oneTree, allTrees, directOne, directMany, starShape}
	}
	if !small || slices.Contains(p.offered, oneTree) || slices.Contains(p.offered, allTrees) {
		p.openAll(treeLane)
	}
	if small {
		p.openAll(directLane)
	}
	p.openPairs()
}

// openPairs opens the lanes that join all ranks, where these are not too many. On
// devices there are no messages from rank to rank.
func (p *planner) openPairs() {
	if p.size > pairRanks {
		return
	}
	p.lanes.open(laneKey{of: pairsLane}, p.size, nil)
	if !p.devices {
		p.lanes.open(laneKey{of: messageLane}, p.size, nil)
	}
}

func (p *planner) openAll(of laneKind) {
	for r := range p.size {
		p.lanes.open(laneKey{of, r}, p.size, p.trees)
	}
}

// pickRoot takes, of the single trees, the one that brings eight bytes round
// the quickest.
func (p *planner) pickRoot() error {
	if p.graph.IsUniform() || p.size > jointRanks || p.size == 1 {
		return nil // the others are the same tree with other ranks, or too many
	}
	best := math.Inf(1)
	for root := range p.trees {
		m, err := plan.FromTrees(plan.AllReduce, p.trees[root:root+1], nil, plan.Options{})
		if err != nil {
			return err
		}
		us, err := p.price(m, 8)
		if err != nil {
			return err
		}
		if us < best {
			p.smallRoot, best = root, us
		}
	}
	return nil
}

// price returns what a message of so many bytes takes with plan m, in
// microseconds.
func (p *planner) price(m *plan.Plan, bytes int64) (float64, error) {
	r, err := p.pricer.Run([]sim.Operation{{Plan: m, Bytes: bytes}}, p.machine)
	if err != nil {
		return 0, fmt.Errorf("price of plan %s: %w", m.Name, err)
	}
	return r.Us, nil
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

// layout returns the links of all lanes.
func (p *planner) layout() transport.Layout {
	return transport.Layout{Size: p.size, Slots: p.slots, SlotBytes: p.slotBytes, HeapBytes: p.heapBytes, Links: p.lanes.links}
}

// messageLane returns the number of the lane for messages, -1 without one.
func (p *planner) messageLane() int {
	if i, open := p.lanes.number[laneKey{of: messageLane}]; open {
		return i
	}
	return -1
}

// pairLimit says up to how many ranks every pair of them has links.
func (p *planner) pairLimit() string {
	return fmt.Sprintf("up to %d ranks, not for %d", pairRanks, p.size)
}

// runs reports whether there is a plan for kind, however many ranks there are.
func (p *planner) runs(kind plan.Kind) bool {
	if p.size <= pairRanks {
		return true
	}
	switch kind {
	case plan.AllToAll, plan.Gather, plan.Scatter:
		return false
	case plan.AllGather, plan.ReduceScatter:
		return p.hosts == nil // over a tree for every part, whose links between hosts would be too many
	}
	return true
}

// program returns the program for a call of so many bytes, and how it cuts them.
func (p *planner) program(kind plan.Kind, root, bytes int) (pr *exec.Program, chunks exec.Chunks, err error) {
	if err := p.choosing(kind); err != nil {
		return nil, chunks, err
	}
	c := p.choiceFor(kind, bytes)
	i := max(root, 0)
	if all := p.made[kind][c.shape]; i < len(all) && all[i] != nil && all[i].program != nil {
		return all[i].program, c.chunks, nil
	}
	m, err := p.planFor(kind, i, c.shape)
	if err != nil {
		return nil, chunks, err
	}
	numbers := make([]int, len(m.lanes))
	for l, k := range m.lanes {
		numbers[l] = p.lanes.number[k]
	}
	m.program, err = exec.Bind(m.plan, p.links, numbers)
	return m.program, c.chunks, err
}

// choosing makes the choices for kind where they have not been made.
func (p *planner) choosing(kind plan.Kind) (err error) {
	if p.choices[kind] == nil {
		p.choices[kind], err = p.choose(kind)
	}
	return err
}

// choiceFor returns what was chosen for a size.
func (p *planner) choiceFor(kind plan.Kind, bytes int) choice {
	for _, c := range p.choices[kind] {
		if bytes < c.below {
			return c
		}
	}
	panic("collective: no shape for the largest messages")
}

// planFor returns the plan of a kind and root in a shape. Rank 0 proves it: the
// other ranks run the same one, which their digests tell.
func (p *planner) planFor(kind plan.Kind, root int, s shape) (*made, error) {
	if p.made[kind][s] == nil {
		n := 1
		if kind.HasRoot() {
			n = p.size
		}
		p.made[kind][s] = make([]*made, n)
	}
	slot := &p.made[kind][s][root]
	if *slot != nil {
		return *slot, nil
	}
	m, err := p.make(kind, root, s)
	if err != nil {
		return nil, err
	}
	if p.rank == 0 {
		if err := p.verify(kind, root, m); err != nil {
			return nil, fmt.Errorf("%s plan %s: %w", kind, m.plan.Name, err)
		}
	}
	*slot = m
	return m, nil
}

// verify proves a plan. Of many ranks on several hosts it proves the plan of one
// rank on every host, which the same function makes of the same trees: the lanes
// of the carriers differ in who they are only.
func (p *planner) verify(kind plan.Kind, root int, m *made) error {
	if p.slim != nil && m.shape >= shapes {
		_, err := p.slim.planFor(kind, p.hosts.host[root], m.shape)
		return err
	}
	return plan.Verify(m.plan, minSlots)
}

// digest is the same on two ranks when all their choices and trees are.
func (p *planner) digest() string {
	h := sha256.New()
	for _, t := range p.trees {
		fmt.Fprintln(h, t.Root, t.Parent, t.Round)
	}
	p.hosts.digest(h)
	var b strings.Builder
	fmt.Fprintf(&b, "%s,trees %s", choicesText(p.choices[plan.AllReduce]), hex.EncodeToString(h.Sum(nil)[:6]))
	return b.String()
}

func layoutDigest(l *transport.Layout) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %d\n", l.Size, l.Slots, l.SlotBytes)
	for _, k := range l.Links {
		fmt.Fprintf(h, "%d %d %d\n", k.Lane, k.Src, k.Dst)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
