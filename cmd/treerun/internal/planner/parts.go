package planner

import (
	"math"

	"github.com/treerun/treerun/topo/pack"
)

// ofParts reports whether every part of the message has trees of its own.
func (c *candidate) ofParts() bool { return c.strands[0].ofPart }

// partTrees packs trees for every part of an AllGather or a ReduceScatter. It
// reports false where that is not for this request, with its limits on the
// trees or its many ranks: the trees of an AllReduce serve then.
func (r *request) partTrees() (strands []strand, weights []float64, ok bool, err error) {
	limits := r.pack
	limits.Seed = 0
	if !r.kind.HasParts() || limits != (pack.Options{}) || r.g.Ranks == 1 || r.g.Ranks > pack.MaxPartRanks {
		return nil, nil, false, nil
	}
	p, err := pack.PackParts(r.g)
	if err != nil {
		return nil, nil, false, err
	}
	for _, t := range p.Trees {
		strands = append(strands, strand{tree: t, ofPart: true})
	}
	r.proved = &p.Bound
	return strands, p.Rates, true, nil
}

// partStrands returns the strands of every part.
func (c *candidate) partStrands() [][]int {
	var list [][]int
	for i := range c.strands {
		root := c.strands[i].tree.Root
		for len(list) <= root {
			list = append(list, nil)
		}
		list[root] = append(list[root], i)
	}
	return list
}

// of returns the rates and the latencies of some strands.
func (c *candidate) of(strands []int) (rates, latenciesUs []float64) {
	for _, i := range strands {
		rates = append(rates, c.strands[i].rate)
		latenciesUs = append(latenciesUs, c.strands[i].latencyUs)
	}
	return rates, latenciesUs
}

// partCrossover is the size in bytes of a message above which some part goes
// over two trees.
func (c *candidate) partCrossover() float64 {
	least := math.Inf(1)
	parts := c.partStrands()
	for _, strands := range parts {
		if len(strands) > 1 {
			least = min(least, pack.Crossovers(c.of(strands))[1].Bytes*float64(len(parts)))
		}
	}
	return least
}

// shareParts divides every part of a message among its trees. Up to the given
// bound every part goes over the tree that begins to deliver first, of equals
// the widest.
func (c *candidate) shareParts(bytes int64, arrayBound size) []float64 {
	shares := make([]float64, len(c.strands))
	parts := c.partStrands()
	each := 1 / float64(len(parts))
	for _, strands := range parts {
		rates, latencies := c.of(strands)
		if arrayBound > 0 && bytes <= int64(arrayBound) {
			best := 0
			for k := range strands {
				if latencies[k] < latencies[best] || latencies[k] == latencies[best] && rates[k] > rates[best] {
					best = k
				}
			}
			shares[strands[best]] = each
			continue
		}
		part := float64(bytes) * each
		list, _ := pack.Shares(rates, latencies, part)
		for k, i := range strands {
			shares[i] = list[k] / part * each
		}
	}
	return shares
}
