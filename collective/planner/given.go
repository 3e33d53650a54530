package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// Given is a plan that was read from a file. It serves the calls of its kind and root.
type Given struct {
	served *Served
}

// Again returns the same plan for another Planner, unused.
func (g *Given) Again() *Given {
	return &Given{&Served{Built: g.served.Built, Chunks: g.served.Chunks}}
}

// Used reports whether calls have run the plan.
func (g *Given) Used() bool { return g.served.Ran }

// NewGiven returns a given plan, with what its file says of it. The plan is verified, and
// the file compared with it.
func NewGiven(f *plan.File, p *plan.Plan) (*Given, error) {
	if err := plan.Verify(p, minSlots); err != nil {
		return nil, err
	}
	if err := f.Check(p); err != nil {
		return nil, err
	}
	if err := compare(f, p); err != nil {
		return nil, err
	}
	c := fixed(f.Algorithm, p.Kind, p.Root, func() (*plan.Plan, error) { return p, nil })[0]
	c.Notes = []string{"a given plan"}
	b, err := c.build(f.Bytes)
	if err != nil {
		return nil, err
	}
	return &Given{&Served{Built: b, Chunks: f.Chunks()}}, nil
}

// compare reports what a file says of a plan that its steps are not.
func compare(f *plan.File, p *plan.Plan) error {
	c := &Candidate{Algorithm: f.Algorithm, Kind: p.Kind, Root: p.Root}
	var shares []float64
	for _, t := range f.Trees {
		s := Channel{Ring: t.Ring, OfPart: t.Part != nil, Rate: t.Rate}
		s.Tree.Root, s.Tree.Parent, s.Tree.Round = t.Root, t.Parent, t.Round
		c.Channels, shares = append(c.Channels, s), append(shares, t.Share)
	}
	base, _, _ := strings.Cut(f.Algorithm, ":")
	if slices.Contains(Algorithms(), base) { // else the plan is made by hand
		if err := checkOptions(f); err != nil {
			return err
		}
	}
	rings := slices.ContainsFunc(c.Channels, func(s Channel) bool { return s.Ring != nil })
	switch rate := c.Rate(); {
	case rings != (base == "ring"):
		return fmt.Errorf("algorithm is %q, which the trees and rings of the plan are not of", f.Algorithm)
	case !(math.Abs(f.Rate-rate) <= 1e-6*rate):
		return fmt.Errorf("rate_gbytes_per_second is %v: the trees have %v together", f.Rate, rate)
	case len(c.Channels) == 0:
		return nil
	}
	for _, c.form = range []plan.Form{plan.Split, plan.Single} {
		b := &Built{Candidate: c, Shares: shares}
		if err := b.overChannels(); err != nil {
			return fmt.Errorf("trees: %w", err)
		}
		if b.Plan.Digest() == p.Digest() {
			return nil
		}
	}
	return fmt.Errorf("trees: the steps are not those of these %d trees and shares", len(f.Trees))
}

// checkOptions reports an algorithm of a file that there is not, and options that it does not have.
func checkOptions(f *plan.File) error {
	o := Options{Algorithm: f.Algorithm}
	for _, name := range slices.Sorted(maps.Keys(f.Options)) {
		if err := o.Set(name, f.Options[name]); err != nil {
			return fmt.Errorf("options.%s is %q: %w", name, f.Options[name], err)
		}
	}
	return o.Validate()
}

// File is what a plan file says of a choice, but for its bound.
func (c *Choice) File() *plan.File {
	f := &plan.File{Algorithm: c.Algorithm, Bytes: c.Bytes, Rate: c.Rate()}
	if !math.IsNaN(c.PredictedUs) {
		f.PredictedUs = c.PredictedUs
	}
	for i, s := range c.Channels {
		t := plan.FileTree{Root: s.Tree.Root, Share: c.Shares[i], Rate: s.Rate, Parent: s.Tree.Parent, Round: s.Tree.Round}
		if s.Ring != nil {
			t.Root, t.Ring = s.Ring[0], s.Ring
		}
		if s.OfPart {
			t.Part = &t.Root
		}
		f.Trees = append(f.Trees, t)
	}
	if n := len(c.Channels); n == 1 || n == 2 && c.Channels[1].Mirrored {
		f.Ring = c.Channels[0].Ring
	}
	return f
}

// Plan returns the plan, nil of no Given.
func (g *Given) Plan() *plan.Plan {
	if g == nil {
		return nil
	}
	return g.served.Plan
}

// serves reports whether calls of a kind and root run the given plan.
func (g *Given) serves(kind plan.Kind, root int) bool {
	p := g.Plan()
	return p != nil && p.Kind == kind && (!kind.HasRoot() || p.Root == max(root, 0))
}
