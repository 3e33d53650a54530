package planner

import (
	"cmp"
	"slices"
)

// allPairs returns the pairs of ranks of different hosts that any plan joins, sorted.
func (p *Planner) allPairs() (pairs [][2]int, err error) {
	add := func(a, b int) {
		if p.Site.graph.Host(a) != p.Site.graph.Host(b) {
			pairs = append(pairs, [2]int{min(a, b), max(a, b)})
		}
	}
	for _, kind := range everyKind() {
		for _, root := range p.Site.rootsOf(kind) {
			o, err := p.finder.search(kind, root, true)
			if err != nil && p.Site.ordered(kind) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for _, c := range o.list {
				if err := c.joins(add); err != nil {
					return nil, err
				}
			}
		}
	}
	if g := p.Site.options.Given; g != nil {
		for _, k := range g.Plan.Links() {
			add(k.Src, k.Dst)
		}
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	return slices.Compact(pairs), nil
}

// joins visits the pairs of ranks that the plans of a candidate join, for all sizes of messages.
func (c *Candidate) joins(add func(a, b int)) error {
	if len(c.Channels) > 0 && c.Channels[0].Ring == nil && (c.OfParts() || !c.Kind.HasParts()) {
		for i := range c.Channels {
			for v, up := range c.Channels[i].Tree.Links() {
				add(v, up)
			}
		}
		return nil
	}
	var shares []float64
	if len(c.Channels) > 0 {
		shares = slices.Repeat([]float64{1 / float64(len(c.Channels))}, len(c.Channels))
	}
	made, err := c.planOf(shares)
	if err != nil {
		return err
	}
	for _, k := range made.Links() {
		add(k.Src, k.Dst)
	}
	return nil
}
