package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// Choice is the plan for one size of message.
type Choice struct {
	Chosen      *ChosenPlan
	Bytes       int64
	Rate        float64 // GB/s of message, as far as links and ports go; 0: unknown, or nothing is sent
	PredictedUs float64 // NaN where it cannot be priced
	By          string  // the basis of the decision: the price, or a rule
}

// Considered is an algorithm that was not chosen, or the one that was.
type Considered struct {
	Algorithm   string
	PredictedUs float64 // +Inf: it cannot be priced
	Why         string  // it has no plan here, or was not tried
}

func joinReasons(list []Considered) string {
	var reasons []string
	names := map[string][]string{} // by reason
	for _, c := range list {
		if names[c.Why] == nil {
			reasons = append(reasons, c.Why)
		}
		names[c.Why] = append(names[c.Why], c.Algorithm)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(names[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

// File returns the contents of a plan file for a choice, except its bound.
func (c *Choice) File() *plan.File {
	of := c.Chosen.Candidate
	f := &plan.File{Algorithm: of.Algorithm, Bytes: c.Bytes, Rate: c.Rate}
	if !math.IsNaN(c.PredictedUs) {
		f.PredictedUs = c.PredictedUs
	}
	for i, s := range of.Channels {
		t := plan.FileTree{Root: s.Tree.Root, Share: c.Chosen.Shares[i], Rate: c.Chosen.Shares[i] * c.Rate,
			Parent: s.Tree.Parent, Round: s.Tree.Round}
		if s.Ring != nil {
			t.Root, t.Ring = s.Ring[0], s.Ring
		}
		if s.OfPart {
			t.Part = &t.Root
		}
		f.Trees = append(f.Trees, t)
	}
	if len(of.Channels) == 1 {
		f.Ring = of.Channels[0].Ring
	}
	return f
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
