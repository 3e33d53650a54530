package setup

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
)

// Plans for a network that changes: the ranks of a communicator measure the network between their hosts again, at a
// place in their calls on which package comm has them agree, and make plans for it. What Split, Sub and sparse
// collectives inherit stays that of New: ranks may call them at different places between the calls of the communicator.

// Replans reports whether the plans of s may follow the network: New has measured it, and calls choose among plans.
func (s *Setup) Replans() bool {
	return s.Config.Replan && s.Between != nil && s.Between.Network.Probe != string(network.Off) &&
		s.Config.Given == nil
}

// Latest returns the graph as measured last, and how it is known.
func (s *Setup) Latest() (*topo.Graph, *Between) {
	s.Plans.mu.Lock()
	defer s.Plans.mu.Unlock()
	if s.Plans.between != nil {
		return s.Plans.latest.full(), s.Plans.between
	}
	return s.Plans.latest.full(), s.Between
}

// LimitBetweenHosts is that of the site as measured last.
func (p *Plans) LimitBetweenHosts(kind plan.Kind, root int) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now.Site.LimitBetweenHosts(kind, root)
}

// Predict returns the predicted time of a call, 0 where there is none. The root is -1 for a call without one.
func (s *Setup) Predict(kind plan.Kind, root, bytes int) (time.Duration, error) {
	s.Plans.mu.Lock()
	defer s.Plans.mu.Unlock()
	c, err := s.Plans.now.PlanFor(kind, root, int64(bytes))
	if err != nil {
		return 0, err
	}
	us, err := s.Plans.now.Prices.Predict(c, int64(bytes), 1)
	if !(us < 1e15) { // or not known
		us = 0
	}
	return time.Duration(us * 1e3), err
}

// Bound returns the highest rate of a collective that any plan could reach, in GB/s of message; 0 where it is not
// known.
func (s *Setup) Bound(kind plan.Kind, root int) float64 {
	s.Plans.mu.Lock()
	defer s.Plans.mu.Unlock()
	bound, err := s.Plans.now.Site.Certify(kind, root)
	if err != nil {
		return 0
	}
	return bound.Rate
}

// Replan has all ranks measure the network between hosts and, where it has changed, make plans for it. w is a World of
// all ranks of s, whose calls are all done. The changes are the same on all ranks. lower reports whether some rate is
// below that which New has measured.
func (s *Setup) Replan(ctx context.Context, w *SubWorld) (changes []network.Change, lower bool, err error) {
	defer s.Waiter.Watch.AtLeast(maxMeasuring)()
	defer s.Waiter.Watch.Record().Phase(record.Measure, s.Name, "again")()
	x := &setup{ctx: ctx, world: w, rank: s.Rank, size: s.Size, hosts: HostsOf(w), config: s.Config}
	of := agreement{coreHosts: s.coreHosts}
	_, before := s.Latest()
	names, most := before.Network.Hosts, math.Inf(1)
	if of.oneMachine() {
		most = levelFrom
	}
	turns, once := network.Turns(len(names), network.Quick), len(network.Once(len(names)))
	n, found, err := x.measureNetwork(w.AllGather, names, network.Quick, turns[:once],
		of.oneMachine() && before.Network.Slowest() >= levelFrom, new(network.Findings))
	if err == nil && len(turns) > once && len(n.Changes(before.Network, most)) > 0 { // or a disturbance
		n, _, err = x.measureNetwork(w.AllGather, names, network.Quick, turns[once:], false, found)
	}
	if err != nil {
		return nil, false, err
	}
	lower = slices.ContainsFunc(n.Changes(s.Between.Network, most),
		func(c network.Change) bool { return c.Now < c.Was })
	if changes = n.Changes(before.Network, most); len(changes) == 0 {
		return nil, lower, nil
	}
	var within []topo.Link
	for _, l := range s.Plans.Graph().Links {
		if x.hosts[l.A] == x.hosts[l.B] {
			within = append(within, l)
		}
	}
	g, err := network.Graph(x.hosts, within, n)
	if err != nil {
		return nil, false, err
	}
	m := s.Plans.machine
	m.Slots, m.SlotBytes = s.Plans.Planner.Site.Slots() // of the links that there are
	next := newPlans(whole(of.equalized(g)), s.Rank, m, s.Config.Planning)
	if err := next.decideTogether(ctx, w.AllGather, next.firstKinds()); err != nil {
		return nil, false, err
	}
	s.latest = latest{}
	s.Plans.follows(next, &Between{Network: n})
	return changes, lower, nil
}

// follows has calls run by the plans of next.
func (p *Plans) follows(next *Plans, by *Between) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.latest, p.between, p.ordered = next.now, next.latest, by, nil
}
