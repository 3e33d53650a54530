package collective

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/collective/plan"
)

// Sizes at which shapes are compared, in bytes: powers of 4 from leastPriced to
// mostPriced. Larger messages take what is best for the largest.
const (
	leastPriced = 8
	mostPriced  = 1 << 20
)

// choose compares the shapes for kind, size by size.
func (p *planner) choose(kind plan.Kind) ([]choice, error) {
	fitting := p.fitting(kind)
	if p.hosts != nil {
		return p.chooseHosts(kind, fitting)
	}
	if len(fitting) == 1 || p.size == 1 {
		return []choice{{below: math.MaxInt, shape: fitting[0]}}, nil
	}
	if kind == plan.Barrier && p.sharesCores() && slices.Contains(fitting, starShape) {
		return []choice{{below: math.MaxInt, shape: starShape}}, nil
	}
	var all []choice
	for bytes := int64(leastPriced); bytes <= p.most; bytes *= 4 {
		best, err := p.cheapest(kind, fitting, bytes)
		if err != nil {
			return nil, err
		}
		all = chosenFrom(all, bytes, best)
	}
	return all, nil
}

// sharesCores reports whether there are more ranks than cores. There a Barrier is
// a star, whatever the price of one by itself says, as what follows it counts too:
// rank 0 leaves first, and when the others get a core again what it has sent since
// is there already. From a flat Barrier any rank may leave first, and it then
// waits for a core to come round once more. Measured on 2 cores, flat and star:
// Barrier after Barrier 7.2 and 6.4 us with 4 ranks, 25 and 16 us with 8;
// Broadcast of 8 bytes after one 7.7 and 0.31 us, 17 and 0.68 us.
func (p *planner) sharesCores() bool { return p.machine.Cores > 0 && p.size > p.machine.Cores }

// chosenFrom adds what is best from a size on.
func chosenFrom(all []choice, bytes int64, best choice) []choice {
	if n := len(all); n > 0 {
		if all[n-1].shape == best.shape && all[n-1].chunks == best.chunks {
			return all
		}
		all[n-1].below = int(bytes)
	}
	return append(all, best)
}

// fitting returns the shapes in which kind can run over the open lanes.
func (p *planner) fitting(kind plan.Kind) []shape {
	if p.hosts != nil {
		return p.fittingHosts(kind)
	}
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
// equals, as the choice for all sizes. Between hosts, where prices rest on rougher
// measurements, those of nearly the same price are equal.
func (p *planner) cheapest(kind plan.Kind, of []shape, bytes int64) (choice, error) {
	best := choice{below: math.MaxInt, us: math.Inf(1)}
	nearly := 0.0
	if p.hosts != nil {
		nearly = 0.02
	}
	for _, s := range of {
		us, chunks, err := p.priceShape(kind, 0, s, bytes, best.us)
		if err != nil {
			return best, err
		}
		if us < best.us*(1-nearly) || math.IsInf(best.us, 1) {
			best.shape, best.chunks, best.us = s, chunks, us
		}
	}
	return best, nil
}

// priceShape returns what a message takes in a shape, in microseconds, and the
// chunks it takes that with. A price that is no lower than worse may
// be any that is not, either.
func (p *planner) priceShape(kind plan.Kind, root int, s shape, bytes int64, worse float64) (us float64, chunks exec.Chunks, err error) {
	if p.size == 1 {
		return 0, chunks, nil
	}
	if p.slim != nil && s >= shapes {
		return p.slim.priceShape(kind, p.hosts.host[root], s, bytes, worse)
	}
	m, err := p.planFor(kind, root, s)
	if err != nil {
		return 0, chunks, err
	}
	if p.hosts != nil {
		return p.priceHosts(m.plan, bytes, worse)
	}
	us, err = p.price(m.plan, bytes)
	return us, chunks, err
}

func choicesText(all []choice) string {
	var b strings.Builder
	from := 0
	for i, c := range all {
		if i > 0 {
			fmt.Fprintf(&b, ", from %s ", bytesText(from))
		}
		b.WriteString(c.shape.String())
		if c.chunks.Most > 0 && len(all) > 1 {
			fmt.Fprintf(&b, " in %s", bytesText(c.chunks.Most))
		}
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
