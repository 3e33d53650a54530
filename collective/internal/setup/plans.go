package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/topo"
)

// Plans is a communicator's Planner, with what it plans for.
type Plans struct {
	mu         sync.Mutex       // held while plans are looked for: what is found is kept
	Planner    *planner.Planner // that of the links as New has measured them; nil where there is none, for the reason err
	err        error
	now        *planner.Planner // that of the links as measured last
	latest     graph            // these links
	between    *Between         // how they are known; nil: as at New
	ordered    *planner.Planner // plans calls with functions of the caller's; nil until there is one
	earlier    *planner.Earlier // which rank 0 takes over when it decides; nil: none
	graph      graph
	machine    planner.Machine
	rank, size int
	Messages   int // the lane of messages between ranks, -1 without one
}

// Graph returns the graph of the ranks, as New has made it. It belongs to the Plans.
func (p *Plans) Graph() *topo.Graph { return p.graph.full() }

// StopBy sets the function that ends prices, nil for none: see planner.Planner.
func (p *Plans) StopBy(stop func() bool) {
	if p.Planner != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.now.StopBy(stop)
	}
}

// Algorithms returns the names of the algorithms that the Planner chooses from.
func (p *Plans) Algorithms(kind plan.Kind) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.CandidateNames(kind)
}

// LargeTrees is that of the Planner: the same on all ranks, whenever each of them calls it.
func (p *Plans) LargeTrees() (trees []topo.Tree, shares []float64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Planner.LargeTrees()
}

// firstKinds are the collectives for which rank 0 chooses when a communicator is made: some where
// ranks crowd on their cores. Elsewhere each rank chooses for the sizes that it calls.
func (p *Plans) firstKinds() []plan.Kind {
	if p.err != nil || !p.Planner.Site.Oversubscribed() {
		return nil
	}
	return []plan.Kind{plan.AllReduce, plan.Barrier}
}

// newPlans makes the plans of a rank, of which nothing is decided yet.
func newPlans(g graph, rank int, m planner.Machine, o planner.Options) *Plans {
	p := &Plans{graph: g, latest: g, machine: m, rank: rank, size: g.ranks, Messages: -1}
	if g.uniform {
		p.Planner, p.err = planner.NewUniform(g.ranks, g.full, m, o)
	} else {
		p.Planner, p.err = planner.New(g.full(), m, o)
	}
	p.now = p.Planner
	if p.err != nil {
		p.err = fmt.Errorf("%w: %w", ErrArgument, p.err)
	} else if p.Planner.Site.HasPairs() {
		p.Messages = messageLane
	}
	return p
}

// decide decides for all ranks, for the given kinds.
func (p *Plans) decide(kinds []plan.Kind) (*planner.Decision, error) {
	if p.err != nil {
		return nil, p.err
	}
	if err := p.Planner.TakeOver(p.earlier); err != nil {
		return nil, err
	}
	return p.Planner.Decide(kinds)
}

// follow takes over rank 0's decision.
func (p *Plans) follow(d *planner.Decision) error {
	if p.err != nil {
		return p.err
	}
	if err := p.Planner.Follow(d); err != nil {
		return fmt.Errorf("rank 0's decision: %w", err)
	}
	return nil
}

// machine returns the Machine that plans are made for, of ranks that have these cores. The hosts of a declared graph
// are its own.
func (s *setup) machine(cores int, coreHosts []int) planner.Machine {
	m := planner.Machine{Cores: cores, Slots: s.config.Slots, SlotBytes: s.config.SlotBytes}
	if s.config.Graph == nil {
		m.CoreHosts = coreHosts
	}
	return m
}

// messageLane is the lane of messages between ranks; those of plans come after it.
const messageLane = 0

// NoMessages returns the reason why there are no messages between ranks.
func (p *Plans) NoMessages() string {
	return fmt.Sprintf("up to %d ranks, not for %d", planner.PairRanks, p.size)
}

// inOrder returns the planner of calls that combine in the order of the ranks. Options.Stable puts the ranks of a host
// next to each other: where their numbers are not, it plans as if all ranks were on one host.
func (p *Plans) inOrder() (_ *planner.Planner, err error) {
	if p.ordered == nil {
		g, o := *p.latest.full(), planner.Options{Stable: true}
		if !slices.IsSorted(slices.Concat(g.ByHost()...)) {
			g.Hosts = nil
		}
		if len(g.ByHost()) == 1 && p.size > pricedInOrder {
			o.Algorithm = "direct:split"
		}
		p.ordered, err = planner.New(&g, p.machine, o)
	}
	return p.ordered, err
}

// pricedInOrder is the largest number of ranks of one host on which calls in order are priced: every rank does so, and
// 64 on two cores would take 15 s.
const pricedInOrder = 16

// Program returns the program for a call of the given number of bytes, and the plan that it is made from. Rank 0 proves
// the plan: the other ranks run the same one, or the digests of their calls differ. With inOrder it combines in the
// order of the ranks.
func (s *Setup) Program(kind plan.Kind, root, bytes int, inOrder bool) (*engine.Program, *planner.ChosenPlan, error) {
	of := request{kind, root, bytes, inOrder}
	if s.latest.request != of {
		pr, c, err := s.program(kind, root, bytes, inOrder)
		if err != nil {
			return nil, nil, err
		}
		s.latest = latest{of, pr, c}
	}
	return s.latest.program, s.latest.plan, nil
}

// request is what Program is called with.
type request struct {
	kind        plan.Kind
	root, bytes int
	inOrder     bool
}

// latest is what Program returned last: most calls are like the one before. There is no kind 0.
type latest struct {
	request
	program *engine.Program
	plan    *planner.ChosenPlan
}

func (s *Setup) program(kind plan.Kind, root, bytes int, inOrder bool) (_ *engine.Program, c *planner.ChosenPlan,
	err error) {
	s.Plans.mu.Lock()
	defer s.Plans.mu.Unlock()
	if to := s.Waiter.Watch.Record(); to != nil {
		defer s.recordPlanning(to, kind, time.Now())
	}
	p := s.Plans.now
	if inOrder {
		if p, err = s.Plans.inOrder(); err != nil {
			return nil, nil, err
		}
	}
	if c, err = p.PlanFor(kind, root, int64(bytes)); err != nil {
		return nil, nil, err
	}
	if pr, bound := c.Attached.(*engine.Program); bound {
		return pr, c, nil
	}
	if s.Rank == 0 {
		if err := p.Site.Verify(c); err != nil {
			return nil, nil, err
		}
	}
	pr, err := engine.Bind(c.Plan, s.Engine, messageLane+1, inOrder)
	if err != nil {
		return nil, nil, err
	}
	c.Attached = pr
	return pr, c, nil
}

// recordPlanning records the search for a plan that has begun then, if it took long.
func (s *Setup) recordPlanning(to *record.Writer, kind plan.Kind, began time.Time) {
	const long = 100 * time.Microsecond
	if took := time.Since(began); took >= long {
		to.Put(&record.Event{Kind: record.Plan, Comm: to.Name(s.Name), Label: to.Name(call.Kind(kind).String()), Peer: -1,
			Start: to.Time(began), Took: took})
	}
}

// Choose returns the plan that a call takes, and its digest. The error is ErrClosed after Retire.
func (s *Setup) Choose(kind plan.Kind, root, bytes int) (*planner.Choice, string, error) {
	if s.retired.Load() {
		return nil, "", fmt.Errorf("collective: Choice on rank %d: %w", s.Rank, ErrClosed)
	}
	s.Plans.mu.Lock()
	choice, err := s.Plans.now.Choose(kind, root, int64(bytes))
	s.Plans.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	pr, _, err := s.Program(kind, max(root, 0), bytes, false)
	if err != nil { // not that of the program itself, which calls run
		return choice, choice.Chosen.Plan.Digest(), err
	}
	return choice, pr.Plan().Digest(), nil
}

// Summary describes, for users, which algorithm runs a kind from which size on.
func (p *Plans) Summary(kind plan.Kind) string {
	list, err := p.now.Table(kind)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for i, r := range list {
		if i > 0 {
			fmt.Fprintf(&b, ", from %s ", numbers.Bytes(r.From))
		}
		b.WriteString(r.Algorithm)
		if r.Chunks.Max > 0 && len(list) > 1 {
			fmt.Fprintf(&b, " in %s", numbers.Bytes(int64(r.Chunks.Max)))
		}
	}
	return b.String()
}

// PlanTogether lets rank 0 of w plan and gives all ranks the outcome, for kinds whose plans they all need at once.
func PlanTogether(ctx context.Context, w World, g *topo.Graph, m planner.Machine, o planner.Options,
	kinds []plan.Kind) (*Plans, error) {
	p := newPlans(whole(g), w.Rank(), m, o)
	return p, p.decideTogether(ctx, w.AllGather, kinds)
}

// decideTogether has rank 0 decide and all ranks follow, by one AllGather. The graph is the same on all: it was given,
// and compared, or follows from the hellos of all ranks. Transports compare the links; the plans are compared when
// calls run by them.
func (p *Plans) decideTogether(ctx context.Context, g allGather, kinds []plan.Kind) error {
	var mine *planner.Decision
	err := p.err
	if p.rank == 0 {
		mine, err = p.decide(kinds)
	}
	all, failed := agree.Exchange(ctx, g, p.size, nil, mine, err)
	switch {
	case err != nil && errors.As(failed, new(*agree.Failed)):
		return err
	case failed != nil:
		return fmt.Errorf("receiving rank 0's decision: %w", failed)
	case all[0] == nil:
		return errors.New("rank 0 has sent no decision")
	}
	if p.rank == 0 {
		return nil
	}
	return p.follow(all[0])
}

// Explain describes, for users, which plan runs from which size on, the predicted time of each, and the best rate as a
// part of the rate that the links allow.
func (p *Plans) Explain() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	slots, slotBytes := p.now.Site.Slots()
	fmt.Fprintf(&b, "treerun: %s, links of %d slots of %d bytes, opened as plans need them\n",
		numbers.Count(p.size, "rank"), slots, slotBytes)
	if p.size == 1 {
		return b.String()
	}
	fmt.Fprintf(&b, "AllReduce: %s\n", p.Summary(plan.AllReduce))
	for _, bytes := range []int64{8, 4 << 10, 256 << 10, 16 << 20} {
		c, err := p.now.Choose(plan.AllReduce, -1, bytes)
		if err != nil {
			fmt.Fprintf(&b, "AllReduce of %s: %v\n", numbers.Bytes(bytes), err)
			continue
		}
		fmt.Fprintf(&b, "AllReduce of %s: %s (%s), predicted %.2f us, %.2f GB/s, plan %s\n",
			numbers.Bytes(bytes), c.Chosen.Name(), c.Chosen.Plan.Name, c.PredictedUs,
			float64(bytes)/c.PredictedUs/1e3, c.Chosen.Plan.Digest())
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast} {
		fmt.Fprint(&b, p.certificate(kind))
	}
	return b.String()
}

// certificate compares the rate of the plan for large messages, as far as the links go,
// with the most that any plan could reach on them.
func (p *Plans) certificate(kind plan.Kind) string {
	last, err := p.now.Choose(kind, 0, 16<<20)
	if err != nil {
		return ""
	}
	bound, err := p.now.Site.Certify(kind, 0)
	if err != nil || bound.Rate == 0 {
		return ""
	}
	text := fmt.Sprintf("%v: links allow %.4g GB/s", call.Kind(kind), bound.Rate)
	if rate := last.Rate; rate > 0 {
		with := ""
		if used := last.Chosen.Used(); used > 0 {
			with = " with " + numbers.Count(used, "tree")
		}
		text += fmt.Sprintf(", %s%s reaches %.4g GB/s (%.4g %% of the bound)", last.Chosen.Name(), with, rate,
			100*bound.Ratio(rate))
	}
	return text + ": " + bound.Words + "\n"
}
