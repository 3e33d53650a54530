package collective

import (
	"fmt"
	"math"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// Sizes at which shapes are compared, in bytes: powers of 4 from leastPriced to
// mostPriced. Larger messages take what is best for the largest.
const (
	leastPriced = 8
	mostPriced  = 1 << 20
)

// choose compares the shapes for kind, size by size. A tuning file's choice
// stands above the prices.
func (p *planner) choose(kind plan.Kind) ([]choice, error) {
	fitting := p.fitting(kind)
	if c := p.tuning.choices(kind, fitting); c != nil {
		return c, nil
	}
	if len(fitting) == 1 || p.size == 1 {
		return []choice{{below: math.MaxInt, shape: fitting[0]}}, nil
	}
	var all []choice
	for bytes := int64(leastPriced); bytes <= mostPriced; bytes *= 4 {
		best, us, err := p.cheapest(kind, fitting, bytes)
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 {
			if all[n-1].shape == best {
				continue
			}
			all[n-1].below = int(bytes)
		}
		all = append(all, choice{below: math.MaxInt, shape: best, us: us})
	}
	return all, nil
}

// fitting returns the shapes in which kind can run over the open lanes.
func (p *planner) fitting(kind plan.Kind) []shape {
	var out []shape
	for _, s := range p.offered {
		if s.fits(kind) {
			out = append(out, s)
		}
	}
	if len(out) > 0 {
		return out
	}
	// What is offered was said by a setting, or kind has one shape only.
	switch {
	case p.size <= directRanks, kind == plan.Gather, kind == plan.Scatter, kind == plan.AllToAll:
		return []shape{directOne}
	case kind == plan.AllGather, kind == plan.ReduceScatter:
		return []shape{allTrees}
	}
	return []shape{oneTree}
}

// cheapest returns the shape with the least price for a size, the first of
// equals.
func (p *planner) cheapest(kind plan.Kind, of []shape, bytes int64) (best shape, us float64, err error) {
	us = math.Inf(1)
	for _, s := range of {
		v, err := p.priceShape(kind, 0, s, bytes)
		if err != nil {
			return 0, 0, err
		}
		if v < us {
			best, us = s, v
		}
	}
	return best, us, nil
}

// priceShape returns what a message takes in a shape, in microseconds.
func (p *planner) priceShape(kind plan.Kind, root int, s shape, bytes int64) (float64, error) {
	if p.size == 1 {
		return 0, nil
	}
	m, err := p.planFor(kind, root, s)
	if err != nil {
		return 0, err
	}
	return p.price(m.plan, bytes)
}

func choicesText(all []choice) string {
	var b strings.Builder
	from := 0
	for i, c := range all {
		if i > 0 {
			fmt.Fprintf(&b, ", from %s ", bytesText(from))
		}
		b.WriteString(c.shape.String())
		from = c.below
	}
	return b.String()
}

// bytesText prints a size as people write it.
func bytesText(n int) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", n>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
