package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// Channel is a tree or a ring with its rates and latency.
type Channel struct {
	Tree      topo.Tree
	Ring      []int   // not nil: a ring in this direction, and Tree is nothing
	OfPart    bool    // the tree carries the part of its root only
	Mirrored  bool    // the ring of the channel before it, in the other direction
	Rate      float64 // GB/s of message, all channels in use
	Alone     float64 // GB/s of message, no other channel in use
	LatencyUs float64 // of the whole operation
}

// Candidate is the result of an algorithm on a graph for a collective and root, before the size of a message is known.
// It belongs to its Planner.
type Candidate struct {
	Algorithm string // as in plan files: "multi", "hierarchical:star/direct"
	Variant   string // of the algorithm: "one", "all", "single", "split" or ""
	Kind      plan.Kind
	Root      int       // -1 where the kind has none
	Channels  []Channel // nil where there are no trees and rings
	Notes     []string  // for users

	weights []float64                  // of the channels, sum 1: the proportion of their rates
	measure func() error               // sets the channels' rates and latencies, once; nil without any
	form    plan.Form                  // of plans over trees
	shifts  bool                       // the tree of channel i is the first, shifted by i, made when it is measured
	steady  bool                       // shares are those of the rates, for messages of all sizes
	order   [][]int                    // the hosts whose order plans over trees add in; nil: any order
	fixed   func() (*plan.Plan, error) // makes the plan where there are no channels
	built   []*ChosenPlan
}

// ChosenPlan is the plan of a candidate for the calls of a kind and root, of some sizes, and how
// these cut their messages. The same pointer comes back for the same calls.
type ChosenPlan struct {
	Candidate *Candidate
	Plan      *plan.Plan
	Shares    []float64 // by channel, sum 1; nil without channels
	Chunks    plan.Chunks
	Attached  any  // the caller's, made from the plan once
	Ran       bool // the caller's: a call has run it
}

// cut returns the ChosenPlan for calls that cut their messages into the given chunks.
func (s *ChosenPlan) cut(chunks plan.Chunks) *ChosenPlan {
	c := s.Candidate
	for _, old := range c.built {
		if old.Plan == s.Plan && old.Chunks == chunks {
			return old
		}
	}
	other := s.Unbound()
	other.Chunks = chunks
	c.built = append(c.built, other)
	return other
}

// Name is the algorithm and its variant, as Options.Algorithm takes them.
func (s *ChosenPlan) Name() string { return s.Candidate.Name() }

// Used is the number of trees and rings that have a share.
func (s *ChosenPlan) Used() int {
	return len(slices.DeleteFunc(slices.Clone(s.Shares), func(share float64) bool { return share == 0 }))
}

// Name is the algorithm and its variant, as Options.Algorithm takes them.
func (c *Candidate) Name() string {
	if c.Variant == "" {
		return c.Algorithm
	}
	return c.Algorithm + ":" + c.Variant
}

// like reports whether two candidates have the same plans, over trees with equal shares.
func (c *Candidate) like(o *Candidate) bool {
	return len(c.Channels) > 0 && c.form == o.form && c.Variant == o.Variant &&
		slices.EqualFunc(c.Channels, o.Channels, func(a, b Channel) bool {
			return a.Ring == nil && b.Ring == nil && a.OfPart == b.OfPart && a.Tree.Root == b.Tree.Root &&
				slices.Equal(a.Tree.Parent, b.Tree.Parent)
		}) && slices.Equal(c.weights, o.weights)
}

// Rate is the rate of all channels together, in GB/s; 0 where no plan can be made of them.
func (c *Candidate) Rate() float64 {
	if len(c.Channels) == 0 || c.measure() != nil {
		return 0
	}
	sum := 0.0
	for i := range c.Channels {
		sum += c.Channels[i].Rate
	}
	return sum
}

// OfParts reports whether every part of the message has trees of its own.
func (c *Candidate) OfParts() bool { return len(c.Channels) > 0 && c.Channels[0].OfPart }

// quickest is the channel that ends first when it has the whole message and all
// links for itself.
func (c *Candidate) quickest(bytes float64) int {
	best, least := 0, math.Inf(1)
	for i := range c.Channels {
		s := &c.Channels[i]
		if t := s.LatencyUs + bytes/(s.Alone*1e3); t < least*(1-1e-12) {
			best, least = i, t
		}
	}
	return best
}

// share divides a message of the given number of bytes, or each of its parts, among the channels such that all end
// together (water filling).
func (c *Candidate) share(bytes float64) []float64 {
	shares := make([]float64, len(c.Channels))
	if c.Variant == variantOne || len(shares) == 1 {
		if c.Channels[0].Ring != nil {
			bytes = minPriced // whose links are open
		}
		shares[c.quickest(bytes)] = 1
		return shares
	}
	groups := [][]int{nil} // channels by part
	for i := range c.Channels {
		part := 0
		if c.OfParts() {
			part = c.Channels[i].Tree.Root
		}
		for len(groups) <= part {
			groups = append(groups, nil)
		}
		groups[part] = append(groups[part], i)
	}
	for _, group := range groups {
		c.shareAmong(group, bytes/float64(len(groups)), bytes, shares)
	}
	return shares
}

// shareAmong divides bytes, of all bytes of a message, among a group of channels.
func (c *Candidate) shareAmong(group []int, bytes, all float64, shares []float64) {
	var rates, latencies []float64
	total := 0.0
	for _, i := range group {
		s := &c.Channels[i]
		rates, latencies, total = append(rates, s.Rate), append(latencies, s.LatencyUs), total+s.Rate
	}
	parts, _ := pack.Shares(rates, latencies, bytes)
	near := true // whether the latencies hardly change the shares that follow from the rates alone
	for k, part := range parts {
		near = near && math.Abs(float64(part/bytes*total)-rates[k]) <= nearShare*rates[k]
	}
	for k, i := range group {
		shares[i] = parts[k] / all
		if near || c.steady { // then large messages of all sizes have one plan
			shares[i] = rates[k] / total * (bytes / all)
		}
	}
}

// nearShare is the relative difference within which shares are those of the rates alone.
const nearShare = 0.05

// build returns the plan for messages of about the given number of bytes.
func (c *Candidate) build(bytes int64) (*ChosenPlan, error) {
	var shares []float64
	var err error
	if len(c.Channels) > 1 && !(c.shifts && c.Variant == variantOne) { // else the first has all, at any rate
		err = c.measure()
	}
	if err == nil && len(c.Channels) > 0 {
		shares = c.share(float64(max(bytes, 1)))
	}
	for _, old := range c.built {
		if slices.Equal(old.Shares, shares) {
			return old, nil
		}
	}
	var p *plan.Plan
	if err == nil {
		p, err = c.planOf(shares)
	}
	if err != nil {
		return nil, fmt.Errorf("%v, algorithm %s: %w", c.Kind, c.Name(), err)
	}
	s := &ChosenPlan{Candidate: c, Plan: p, Shares: shares}
	c.built = append(c.built, s)
	return s, nil
}

// planOf makes the plan whose channels, where there are any, have the given shares.
func (c *Candidate) planOf(shares []float64) (*plan.Plan, error) {
	var trees []topo.Tree
	var rings [][]int
	var weights []float64
	for i, share := range shares {
		if share > 0 {
			trees, rings = append(trees, c.Channels[i].Tree), append(rings, c.Channels[i].Ring)
			weights = append(weights, share)
		}
	}
	switch {
	case len(c.Channels) == 0:
		return c.fixed()
	case c.order != nil:
		return plan.Ordered(c.Kind, trees, weights, c.order, c.form)
	case rings[0] != nil:
		return plan.FromRings(c.Kind, rings, weights, max(c.Root, 0))
	case c.OfParts():
		return plan.FromPartTrees(c.Kind, trees, weights)
	}
	return plan.FromTrees(c.Kind, trees, weights, c.form)
}

// NewGiven returns the ChosenPlan for calls by a plan that was read from a file, of its kind and root. The plan is
// verified, and the file compared with it.
func NewGiven(f *plan.File, p *plan.Plan) (*ChosenPlan, error) {
	if err := plan.Verify(p, minSlots); err != nil {
		return nil, err
	}
	if err := f.Check(p); err != nil {
		return nil, err
	}
	if err := compare(f, p); err != nil {
		return nil, err
	}
	c := &Candidate{Algorithm: f.Algorithm, Kind: p.Kind, Root: p.Root, Notes: []string{"a given plan"}}
	return &ChosenPlan{Candidate: c, Plan: p, Chunks: f.Chunks()}, nil
}

// Unbound returns the same plan for another Planner, without what a caller has attached.
func (s *ChosenPlan) Unbound() *ChosenPlan {
	return &ChosenPlan{Candidate: s.Candidate, Plan: s.Plan, Shares: s.Shares, Chunks: s.Chunks}
}

// serves reports whether calls of a kind and root run by s, a given plan or nil.
func (s *ChosenPlan) serves(kind plan.Kind, root int) bool {
	return s != nil && s.Plan.Kind == kind && (!kind.HasRoot() || s.Plan.Root == max(root, 0))
}

// compare reports trees of a file that the steps of its plan are not of. The rest of the file is for users.
func compare(f *plan.File, p *plan.Plan) error {
	if len(f.Trees) == 0 {
		return nil
	}
	c, shares := Candidate{Kind: p.Kind, Root: p.Root}, []float64(nil)
	for _, t := range f.Trees {
		s := Channel{Ring: t.Ring, OfPart: t.Part != nil}
		s.Tree.Root, s.Tree.Parent, s.Tree.Round = t.Root, t.Parent, t.Round
		c.Channels, shares = append(c.Channels, s), append(shares, t.Share)
	}
	for _, c.form = range []plan.Form{plan.Split, plan.Single} {
		made, err := c.planOf(shares)
		if err != nil {
			return fmt.Errorf("trees: %w", err)
		}
		if made.Digest() == p.Digest() {
			return nil
		}
	}
	return fmt.Errorf("trees: the steps are not those of these %d trees and shares", len(f.Trees))
}

// File returns the contents of a plan file for a choice, except its bound.
func (c *Choice) File() *plan.File {
	of := c.Chosen.Candidate
	f := &plan.File{Algorithm: of.Algorithm, Bytes: c.Bytes, Rate: of.Rate()}
	if !math.IsNaN(c.PredictedUs) {
		f.PredictedUs = c.PredictedUs
	}
	for i, s := range of.Channels {
		t := plan.FileTree{Root: s.Tree.Root, Share: c.Chosen.Shares[i], Rate: s.Rate, Parent: s.Tree.Parent,
			Round: s.Tree.Round}
		if s.Ring != nil {
			t.Root, t.Ring = s.Ring[0], s.Ring
		}
		if s.OfPart {
			t.Part = &t.Root
		}
		f.Trees = append(f.Trees, t)
	}
	if n := len(of.Channels); n == 1 || n == 2 && of.Channels[1].Mirrored {
		f.Ring = of.Channels[0].Ring
	}
	return f
}
