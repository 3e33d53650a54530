package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
)

// NewGiven returns what serves calls by a plan that was read from a file, of its kind and root.
// The plan is verified, and the file compared with it.
func NewGiven(f *plan.File, p *plan.Plan) (*Served, error) {
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
	return &Served{Candidate: c, Plan: p, Chunks: f.Chunks()}, nil
}

// Again returns the same for another Planner, unused.
func (s *Served) Again() *Served {
	return &Served{Candidate: s.Candidate, Plan: s.Plan, Shares: s.Shares, Chunks: s.Chunks}
}

// serves reports whether calls of a kind and root run by s, a given plan or nil.
func (s *Served) serves(kind plan.Kind, root int) bool {
	return s != nil && s.Kind == kind && (!kind.HasRoot() || s.Root == max(root, 0))
}

// compare reports trees of a file that the steps of its plan are not of. The rest of the
// file is for people.
func compare(f *plan.File, p *plan.Plan) error {
	if len(f.Trees) == 0 {
		return nil
	}
	b := &Served{Candidate: &Candidate{Kind: p.Kind, Root: p.Root}}
	for _, t := range f.Trees {
		s := Channel{Ring: t.Ring, OfPart: t.Part != nil}
		s.Tree.Root, s.Tree.Parent, s.Tree.Round = t.Root, t.Parent, t.Round
		b.Channels, b.Shares = append(b.Channels, s), append(b.Shares, t.Share)
	}
	for _, b.form = range []plan.Form{plan.Split, plan.Single} {
		if err := b.make(); err != nil {
			return fmt.Errorf("trees: %w", err)
		}
		if b.Plan.Digest() == p.Digest() {
			return nil
		}
	}
	return fmt.Errorf("trees: the steps are not those of these %d trees and shares", len(f.Trees))
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
