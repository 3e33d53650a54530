package merge_test

import (
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Limit contains lower bounds for every sparse AllReduce, in bytes of blocks.
type Limit struct {
	// Rank is the maximum that one rank must send, or receive, on whatever rank blocks are added up: all its own non-zero
	// blocks, or all blocks that others have.
	Rank int
	// Together is the total that all ranks must send if only they add up, without machines between them: of a block that k
	// of n ranks have, k-1 messages until one rank has the sum, and n-1 to all others.
	Together int
}

// LimitOf returns the Limit of tensors with these non-zero blocks, a Set per rank.
func LimitOf(g block.Grid, sets []block.Set) Limit {
	var l Limit
	n := len(sets)
	owners := make([]int, g.Blocks())
	total := 0
	for _, s := range sets {
		for b := s.Next(0); b >= 0; b = s.Next(b + 1) {
			owners[b]++
		}
	}
	for b, k := range owners {
		if from, to := g.Range(b, 1); k > 0 {
			total += to - from
			l.Together += (k + n - 2) * (to - from)
		}
	}
	for _, s := range sets {
		if n == 1 {
			break // no other rank to send to
		}
		own, alone := 0, 0
		for b := s.Next(0); b >= 0; b = s.Next(b + 1) {
			from, to := g.Range(b, 1)
			own += to - from
			if owners[b] == 1 {
				alone += to - from
			}
		}
		l.Rank = max(l.Rank, own, total-alone)
	}
	return l
}

func TestLimit(t *testing.T) {
	g := block.Grid{Elements: 39, Size: 4, Width: 4} // the last of 10 blocks has 12 bytes
	a, b, c := block.NewSet(10), block.NewSet(10), block.NewSet(10)
	for i := range 3 {
		a.Add(i)
	}
	b.Add(2)
	b.Add(9)
	// Blocks 0 and 1 are only a's, 2 is of a and b, 9 only b's; c has nothing.
	want := Limit{Rank: 3*16 + 12, Together: 2*2*16 + 3*16 + 2*12}
	if got := LimitOf(g, []block.Set{a, b, c}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	full := block.NewSet(10)
	for i := range 10 {
		full.Add(i)
	}
	if got := LimitOf(g, []block.Set{full, full, full, full}); got.Rank != g.Bytes() || got.Together != 2*3*g.Bytes() {
		t.Errorf("dense: %+v", got)
	}
	if got := LimitOf(g, []block.Set{c, c}); got != (Limit{}) {
		t.Errorf("zero: %+v", got)
	}
	if got := LimitOf(g, []block.Set{full}); got != (Limit{}) {
		t.Errorf("one rank: %+v", got)
	}
}
