package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// Channel is a tree or a ring with its rates and latency.
type Channel struct {
	Tree      topo.Tree
	Ring      []int   // not nil: a ring in this direction, and Tree is nothing
	OfPart    bool    // the tree carries the part of its root only
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
	own     bool                       // channel i has the tree of root i, and Root's is the one that runs alone
	order   [][]int                    // the hosts whose order plans over trees add in; nil: any order
	fixed   func() (*plan.Plan, error) // makes the plan where there are no channels
	built   []*ChosenPlan
}

// Name is the algorithm and its variant, as Options.Algorithm takes them.
func (c *Candidate) Name() string {
	if c.Variant == "" {
		return c.Algorithm
	}
	return c.Algorithm + ":" + c.Variant
}

// Matches reports whether a candidate is one that a name of Options.Algorithm means:
// "direct" means "direct:single" and "direct:split", "" means all.
func (c *Candidate) Matches(name string) bool {
	full := c.Name()
	if c.Variant == "" && len(c.Channels) > 0 {
		full += ":" + variantAll // between hosts no other one may be left
	}
	return name == "" || full == name || strings.HasPrefix(full, name+":")
}

// like reports whether two candidates have the same plans, over trees with equal shares.
func (c *Candidate) like(o *Candidate) bool {
	return len(c.Channels) > 0 && c.form == o.form && c.Variant == o.Variant && c.own == o.own &&
		slices.EqualFunc(c.Channels, o.Channels, func(a, b Channel) bool {
			return a.Ring == nil && b.Ring == nil && a.OfPart == b.OfPart && a.Tree.Root == b.Tree.Root &&
				slices.Equal(a.Tree.Parent, b.Tree.Parent)
		}) && slices.Equal(c.weights, o.weights)
}

// fits reports channels for which a plan has too few lanes.
func (c *Candidate) fits(ranks int) error {
	each := 1
	if c.Channels[0].Ring != nil && !c.Kind.HasRoot() || c.Kind.HasParts() && !c.OfParts() {
		each = ranks
	}
	if lanes := each * len(c.Channels); lanes > plan.MaxLanes {
		return reasonf("%v needs %d lanes for %d trees or rings, and a plan has at most %d: "+
			"packing,max-trees=K takes fewer", c.Kind, lanes, len(c.Channels), plan.MaxLanes)
	}
	return nil
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
// links for itself, or the root's own.
func (c *Candidate) quickest(bytes float64) int {
	if c.own {
		return c.Root
	}
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
	if c.Variant == variantOne || c.Variant == variantOwn || len(shares) == 1 {
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
	used := func(share float64) bool { return share > 0 }
	if i := slices.IndexFunc(shares, used); c.own && !slices.ContainsFunc(shares[i+1:], used) { // one runs alone
		shares[i], shares[c.Root] = 0, 1
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
	case len(trees) == 0:
		return nil, errors.New("no tree has a share")
	case c.order != nil:
		return plan.Ordered(c.Kind, trees, weights, c.order, c.form)
	case rings[0] != nil:
		return plan.FromRings(c.Kind, rings, weights, max(c.Root, 0))
	case c.OfParts():
		return plan.FromPartTrees(c.Kind, trees, weights)
	}
	return plan.FromTrees(c.Kind, trees, weights, c.form)
}

// normal returns n weights with sum 1; nil ones are equal.
func normal(weights []float64, n int) []float64 {
	if weights == nil {
		return slices.Repeat([]float64{1 / float64(n)}, n)
	}
	total, shares := numbers.Sum(weights), make([]float64, n)
	for i, w := range weights {
		shares[i] = w / total
	}
	return shares
}
