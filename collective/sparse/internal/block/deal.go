package block

import (
	"fmt"
	"math"
)

// Deal assigns blocks to several trees. Stripes of consecutive blocks go to the trees in a fixed cyclic pattern
// in which each has its share, spread as evenly as possible: clustered non-zero blocks then load all trees equally. A
// Deal is immutable.
type Deal struct {
	stripe  int      // blocks
	pattern []uint16 // by stripe, modulo its length: the tree
}

// turns is the length of a pattern, which limits the accuracy of shares.
const turns = 64

// Turn returns the number of stripes after which a Deal to the given number of trees repeats.
func Turn(trees int) int { return turns * ((trees + turns - 1) / turns) }

// NewDeal returns the Deal to one tree per share, in stripes of the given number of blocks.
// Shares count relative to each other; a tree of share 0 gets nothing.
func NewDeal(shares []float64, stripe int) (*Deal, error) {
	sum := 0.0
	for i, s := range shares {
		if !(s >= 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("block: tree %d has share %v", i, s)
		}
		sum += s
	}
	if !(sum > 0) || math.IsInf(sum, 0) || stripe < 1 || len(shares) > math.MaxUint16 {
		return nil, fmt.Errorf("block: cannot deal stripes of %d blocks to %d trees whose shares sum up to %v",
			stripe, len(shares), sum)
	}
	d := &Deal{stripe: stripe, pattern: make([]uint16, Turn(len(shares)))}
	owed := make([]float64, len(shares))
	for i := range d.pattern { // the tree that is furthest behind its share is next
		next := 0
		for t, s := range shares {
			owed[t] += s
			if owed[t] > owed[next] {
				next = t
			}
		}
		owed[next] -= sum
		d.pattern[i] = uint16(next)
	}
	return d, nil
}

// Tree returns the tree that carries block b.
func (d *Deal) Tree(b int) int { return int(d.pattern[b/d.stripe%len(d.pattern)]) }

// Split puts those of blocks from to to-1 that are in s into the part of the tree that
// carries them.
func (d *Deal) Split(s Set, from, to int, parts []Set) {
	s = s[:Words(to)]
	for b := s.Next(from); b >= 0 && b < to; b = s.Next(b + 1) {
		parts[d.Tree(b)].Add(b)
	}
}
