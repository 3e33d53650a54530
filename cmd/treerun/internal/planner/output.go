package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
	"github.com/treerun/treerun/topo/pack"
)

// planFile is the JSON form of a design.
type planFile struct {
	Algorithm      string       `json:"algorithm"`
	Collective     string       `json:"collective"`
	Bytes          int64        `json:"bytes"`
	Digest         string       `json:"digest"` // of the plan: plan.Plan.Digest
	PredictedUs    float64      `json:"predicted_us"`
	Trees          []strandFile `json:"trees"`
	Rate           float64      `json:"rate_gbytes_per_second"`
	Bound          float64      `json:"bound_gbytes_per_second"`
	TightPartition [][]int      `json:"tight_partition"`
	Note           string       `json:"note,omitempty"`
}

// strandFile is a tree or a ring in it.
type strandFile struct {
	Root  int     `json:"root"`  // of a ring: where it begins
	Share float64 `json:"share"` // of the message; all sum up to 1

	// Rate is how much of the message goes over it per second, in GB/s, while
	// all are in use: all sum up to the plan's. In an AllGather and a
	// ReduceScatter the message is all parts together. It is not the load of a
	// link: a tree puts its rate on a link each way it is used, a ring
	// 2(n-1)/n of it in an AllReduce, (n-1)/n where the message has parts.
	Rate float64 `json:"rate_gbytes_per_second"`

	// Part is the part that it carries a share of, where that is not all of the
	// message: its root's.
	Part *int `json:"part,omitempty"`

	Parent []int `json:"parent,omitempty"`
	Round  []int `json:"round,omitempty"`
	Ring   []int `json:"ring,omitempty"`
}

func (d *design) json(r *request, c certificate) ([]byte, error) {
	f := planFile{
		Algorithm: d.algorithm, Collective: r.kind.String(), Bytes: d.bytes, Digest: d.plan.Digest(),
		PredictedUs: d.predictedUs, Rate: d.rate(), Bound: c.rate, TightPartition: c.partition,
		Note: strings.Join(slices.Concat(r.unkept(d.candidate), r.leftOut(), d.remarks(r)), "; "),
	}
	if f.TightPartition == nil {
		f.TightPartition = [][]int{}
	}
	for i, s := range d.strands {
		entry := strandFile{Root: s.tree.Root, Share: d.shares[i], Rate: s.rate, Parent: s.tree.Parent, Round: s.tree.Round}
		if s.ring != nil {
			entry.Root, entry.Ring = s.ring[0], s.ring
		}
		if s.ofPart {
			entry.Part = &s.tree.Root
		}
		f.Trees = append(f.Trees, entry)
	}
	data, err := json.Marshal(f)
	return append(data, '\n'), err
}

func trees(list []strand) []topo.Tree {
	var all []topo.Tree
	for _, s := range list {
		all = append(all, s.tree)
	}
	return all
}

// drawing is the design as package draw shows it. A ring is drawn once for both
// its directions, with the rate that it puts on a link.
func (d *design) drawing(r *request, c certificate) draw.Plan {
	p := draw.Plan{Title: d.headline(r)}
	for _, s := range d.strands {
		switch {
		case s.ring == nil:
			p.Trees = append(p.Trees, s.tree)
			p.Rates = append(p.Rates, s.rate)
		case !s.mirrored:
			rate := s.rate
			if f := ringFlows(s.ring, r.kind, r.planRoot()); len(f) > 0 {
				rate *= f[0].amount
			}
			p.Rings = append(p.Rings, s.ring)
			p.Rates = append(p.Rates, rate)
		}
	}
	p.Notes = append(d.proof(r, c), d.sharing(r)...)
	p.Warnings = append(r.unkept(d.candidate), r.leftOut()...)
	for _, n := range d.remarks(r) {
		if !slices.ContainsFunc(p.Trees, func(t topo.Tree) bool { return t.Note == n }) { // those are drawn
			p.Warnings = append(p.Warnings, n)
		}
	}
	return p
}

// remarks are the notes of the algorithm, without those that say again what is
// said elsewhere: that one rank sends nothing, and that the height is not kept.
func (d *design) remarks(r *request) []string {
	if r.g.Ranks == 1 {
		return nil
	}
	unkept := strings.Join(r.unkept(d.candidate), "; ")
	return slices.DeleteFunc(slices.Clone(d.notes), func(n string) bool {
		return isRadius(n) && strings.Contains(unkept, "--max-height")
	})
}

func (d *design) headline(r *request) string {
	if r.g.Ranks == 1 {
		return fmt.Sprintf("%s of %s on %s: nothing to send", r.kind, inWords(d.bytes), title(r.g))
	}
	return fmt.Sprintf("%s, %s of %s on %s: %.1f us predicted, %.4g GB/s",
		d.algorithm, r.kind, inWords(d.bytes), title(r.g), d.predictedUs, algGBs(d.bytes, d.predictedUs))
}

func algGBs(bytes int64, us float64) float64 {
	if us == 0 {
		return 0
	}
	return float64(bytes) / us / 1e3
}

// proof says the rate, the bound, their ratio and why.
func (d *design) proof(r *request, c certificate) []string {
	switch {
	case r.g.Ranks == 1:
		return []string{c.headline(r)}
	case c.rate == 0:
		return append([]string{fmt.Sprintf("rate %.4g GB/s; %s", d.rate(), c.headline(r))}, d.busiest(r)...)
	}
	list := append(d.achieved(r, c), "limit: "+c.words)
	switch {
	case d.strands[0].ring != nil:
		list = append(list, "the rate shown with a ring is what it puts on a link each way, not the message's")
	case d.ofParts():
		list = append(list, "every tree carries its share of its root's part, one way; loads above count both directions together, and are at most that")
	case r.kind != plan.AllReduce:
		list = append(list, "loads above count both directions together, and are at most that")
	}
	return append(list, d.busiest(r)...)
}

// headline is the bound in one line.
func (c *certificate) headline(r *request) string {
	switch {
	case r.g.Ranks == 1:
		return "no bound: one rank sends nothing"
	case c.rate == 0:
		return "bound: " + c.words
	}
	return fmt.Sprintf("bound %.4g GB/s: %s", c.rate, c.words)
}

// sharing says which message takes which strands.
func (d *design) sharing(r *request) []string {
	if len(d.strands) == 1 {
		return nil
	}
	what := "trees"
	if d.strands[0].ring != nil {
		what = "rings and directions"
	}
	bound, why := d.crossover(), "derived"
	if r.arrayBound > 0 {
		bound, why = float64(r.arrayBound), "given"
	}
	first := fmt.Sprintf("crossover (%s): several %s are quicker than one above %s", why, what, about(bound))
	switch {
	case math.IsInf(bound, 1):
		first = fmt.Sprintf("crossover (%s): one of the %s alone is quicker at every size", why, what)
	case bound == 0:
		first = fmt.Sprintf("crossover (%s): several %s are quicker than one at every size", why, what)
	}
	list := []string{first}
	if joins := d.joins(bound); joins != "" {
		list = append(list, joins)
	}
	return append(list, fmt.Sprintf("this message uses %d of %d: shares %s", d.treesUsed(), len(d.strands), shareText(d.shares)))
}

// joins says from which size on which strand takes part; sizes of less than a
// number or two are none.
func (d *design) joins(bound float64) string {
	if d.ofParts() {
		return "" // each part has trees of its own that join
	}
	var parts []string
	for _, c := range pack.Crossovers(d.rates()) {
		if c.Bytes > max(bound, 8) && !math.IsInf(bound, 1) && len(parts) < 8 {
			parts = append(parts, fmt.Sprintf("%d above %s", c.Tree, about(c.Bytes)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "joining later: " + strings.Join(parts, ", ")
}

func shareText(shares []float64) string {
	var parts []string
	for i, s := range shares {
		if i == 16 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("%.3g", s))
	}
	return strings.Join(parts, " ")
}
