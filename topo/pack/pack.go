package pack

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Options limit a packing. The zero value requests the largest rate there is. Values are finite and not below 0.
type Options struct {
	MaxTrees  int     // K: the largest number of trees; 0: any number
	MaxHeight float64 // H: no rank farther from its root, in links; 0: any height
	MinRate   float64 // r: no tree slower, in GB/s; 0: any rate

	// HeightTolerance is eps: the height is lowered, by binary search, while the rate stays within this share, below 1, of
	// the rate without it. 0: no search.
	HeightTolerance float64

	HeightUs bool   // heights are latencies in microseconds, not numbers of links
	Seed     uint64 // of the random choices

	// Greedy takes the trees and the rates of the patent's step 1 in place of
	// the linear program, and leaves the program to MaxTrees and MinRate only.
	Greedy bool
}

// Pack packs trees into g: for AllReduce where root is BothWays, for Broadcast from a root or Reduce to it, all with
// that root and used in one direction only, and for AllGather and ReduceScatter where it is EveryRoot, with a
// HeightTolerance and no other option (see MaxPartRanks). On every connected graph it gives at least one tree: a limit
// that no tree keeps is loosened, and the Note of the Result reports that. The error is for a graph that is not valid,
// among others a *topo.DisconnectedError, or one of more than MaxRanks.
func Pack(g *topo.Graph, root int, o Options) (*Result, error) {
	p, err := packed(g, root)
	if err != nil {
		return nil, err
	}
	switch {
	case g.Ranks == 1:
		return alone(p.w), nil
	case root == EveryRoot:
		return p.lowered(o).partTrees()
	}
	x := &packer{w: p.w, o: o, delay: p.w.delays(o.HeightUs), free: p}
	found := x.search()
	return x.result(found), nil
}

// packer is one call of Pack.
type packer struct {
	w     *network
	o     Options
	delay []float64 // by link
	free  *packing  // without any limit
	notes []string
}

// found is a packing within the limits.
type found struct {
	pool  *pool
	trees []int
	rates []float64
}

func (f found) rate() float64 { return numbers.Sum(f.rates) }

// search is step 2 of the patent: binary search for the least height that
// costs no more of the rate than is allowed. As a packing under a limit comes
// from heuristics its rate need not rise with the height; so the best packing
// that was seen within the height found is kept.
func (x *packer) search() found {
	highest := math.Inf(1)
	if x.o.MaxHeight > 0 {
		highest = x.o.MaxHeight
	} else if x.o.HeightTolerance == 0 {
		return x.under(highest)
	}
	radius := x.w.radius(x.delay)
	if highest < radius*(1-same) {
		x.note("no spanning tree has a height of %s; the least is %s", x.unit(highest), x.unit(radius))
		highest = radius
	}
	best := x.under(highest)
	if x.o.HeightTolerance == 0 {
		return best
	}
	least := best.rate() * (1 - x.o.HeightTolerance) * (1 - same)
	lower(radius, x.height(best), !x.o.HeightUs, func(height float64) (float64, bool) {
		f := x.under(height)
		if f.rate() < least {
			return 0, false
		}
		best = f
		return x.height(f), true
	})
	return best
}

// lower seeks the least height between lo and hi at which try succeeds: by steps of a quarter until it fails, and then
// by bisection, as low heights take the most work. The heights are whole numbers or any, and try returns the height
// that its trees have.
func lower(lo, hi float64, whole bool, try func(height float64) (float64, bool)) {
	failed := false
	for range 24 {
		if hi-lo <= hi*same {
			return
		}
		mid := (lo + hi) / 2
		if !failed {
			mid = max(lo, hi*3/4)
		}
		if whole {
			mid = math.Floor(mid)
		}
		if reached, ok := try(mid); ok {
			hi = reached
			continue
		}
		failed = true
		if lo = mid; whole {
			lo++
		}
	}
}

func (x *packer) unit(height float64) string {
	if x.o.HeightUs {
		return fmt.Sprintf("%.4g us", height)
	}
	return fmt.Sprintf("%g links", height)
}

// height is the height of the highest tree in use.
func (x *packer) height(f found) float64 {
	most := 0.0
	for _, k := range f.trees {
		most = max(most, x.w.height(f.pool.trees[k], x.delay))
	}
	return most
}

// under packs trees of at most a height.
func (x *packer) under(height float64) found {
	grow := x.solved
	if x.o.Greedy {
		grow = x.grown
	}
	f := grow(height)
	if len(f.trees) == 0 { // the work ended before any was found
		return f
	}
	if most := x.limit(); len(f.trees) > most || x.o.MinRate > 0 && slices.Min(f.rates) < x.o.MinRate*(1-same) {
		return x.fewer(f, most, height)
	}
	return f
}

// solved takes the trees and rates of the linear program.
func (x *packer) solved(height float64) found {
	p := x.free
	if !math.IsInf(height, 1) {
		p = x.free.bounded(x.delay, height, x.o.Seed)
	}
	f, rates := found{pool: p.pool}, p.rates()
	least := p.bound * same
	if len(rates) > 0 { // of slow trees alone, which a low height may leave, the best
		least = min(least, slices.Max(rates)*(1-same))
	}
	for k, r := range rates {
		if r > least {
			f.trees = append(f.trees, k)
			f.rates = append(f.rates, r)
		}
	}
	return f
}

// grown runs the patent's step 1. Without a rate r it takes the bound's 64th
// part as the quantum, or a 16th part of the slowest link when that is more:
// with the whole width of a tree as its rate the greedy search comes to half
// of the bound only.
func (x *packer) grown(height float64) found {
	quantum := x.o.MinRate
	if quantum == 0 {
		slower := func(a, b topo.Link) int { return cmp.Compare(a.GBytesPerSecond, b.GBytesPerSecond) }
		quantum = max(x.free.bound/64, slices.MinFunc(x.w.g.Links, slower).GBytesPerSecond/16)
	}
	if f := newGreedy(x.w, x.delay, height, quantum, quantum, x.o.Seed).trees(newPool(x.w)); len(f.trees) > 0 {
		return f
	}
	x.note("the greedy search found no tree; these are the linear program's")
	return x.solved(height)
}

// limit is the largest number of trees that the options allow.
func (x *packer) limit() int {
	most := math.MaxInt
	if x.o.MaxTrees > 0 {
		most = x.o.MaxTrees
	}
	if x.o.MinRate > 0 {
		most = max(1, int(min(float64(most), x.free.bound*(1+same)/x.o.MinRate)))
	}
	return most
}

// fewer is step 3 of the patent: at most the given number of trees, none below the least rate.
func (x *packer) fewer(f found, most int, height float64) found {
	c := &chooser{w: x.w, pool: f.pool, caps: x.w.Caps, delay: x.delay, height: height,
		random: rand.New(rand.NewPCG(x.o.Seed, 0x6368))}
	best := found{}
	for most := most; most > 0; most = most * 2 / 3 { // fewer trees can have a larger least rate
		if next := x.fast(c, c.choose(most, x.free.bound)); next.rate() > best.rate() {
			best = next
		}
		if x.o.MinRate == 0 {
			break
		}
	}
	if r := x.o.MinRate; r > 0 {
		beside := newGreedy(x.w, x.delay, height, r, r, x.o.Seed).trees(c.pool) // trees that have r side by side
		for _, next := range []found{beside, x.fast(c, c.swap(c.of(beside.trees), most, x.free.bound))} {
			if len(next.trees) <= most && next.rate() > best.rate() {
				best = next
			}
		}
	}
	if r := best.rates[0]; r < x.o.MinRate*(1-same) {
		x.note("no tree has a rate of %.4g GB/s; the widest that was found has %.4g", x.o.MinRate, r)
	}
	return best
}

// fast leaves out the slowest tree, and lets the others have its share, until
// none is below the least rate or one is left.
func (x *packer) fast(c *chooser, s *selection) found {
	f := c.solution(s)
	for len(f.trees) > 1 && slices.Min(f.rates) < x.o.MinRate*(1-same) {
		i := slices.Index(f.rates, slices.Min(f.rates))
		f = c.solution(c.of(slices.Delete(f.trees, i, i+1)))
	}
	return f
}

func (x *packer) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(x.notes, s) {
		x.notes = append(x.notes, s)
	}
}
