package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective"
)

const treeLeaves = 16

// leaf returns the vector of a microbatch: numbers whose sum depends on the order.
func leaf(m, n int) []float32 {
	random, v := rand.New(rand.NewPCG(7, uint64(m))), make([]float32, n)
	for i := range v {
		v[i] = float32(random.NormFloat64() * math.Exp2(float64(random.IntN(30))))
	}
	return v
}

// treeSum adds up the vectors of microbatches first to first+size-1, half by half.
func treeSum(first, size, n int) []float32 {
	if size == 1 {
		return leaf(first, n)
	}
	sum := treeSum(first, size/2, n)
	for i, v := range treeSum(first+size/2, size/2, n) {
		sum[i] += v
	}
	return sum
}

// sameBits returns an error unless two vectors have the same bits.
func sameBits(got, want []float32) error {
	for i := range want {
		if len(got) != len(want) || math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("element %d of the sum: %v, want %v", i, got, want)
		}
	}
	return nil
}

// TestPartialSums: however the microbatches are divided among ranks, the sums of their subtrees have one sum, and a
// vector is used by one subtree only.
func TestPartialSums(t *testing.T) {
	const n = 5
	want := treeSum(0, treeLeaves, n)
	backward := make([]float32, n)
	for m := treeLeaves - 1; m >= 0; m-- {
		for i, v := range leaf(m, n) {
			backward[i] += v
		}
	}
	if slices.Equal(backward, want) {
		t.Fatal("the order of the additions does not matter to these vectors")
	}
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(0, treeLeaves), 0, 20).Draw(t, "cuts")
		slices.Sort(cuts)
		var own, all partialSums
		from := 0
		for _, to := range append(cuts, treeLeaves) {
			own.clear()
			for m := from; m < to; m++ {
				v := own.vector(n)
				copy(v, leaf(m, n))
				own.add(subtree{first: m, size: 1, sum: v})
			}
			for i, s := range subtreesOf(from, to) {
				if got := own.subtrees[i]; got.first != s.first || got.size != s.size {
					t.Fatalf("microbatches %d to %d: subtree %+v, want %+v", from, to, got, s)
				}
				s.sum = slices.Clone(own.subtrees[i].sum) // which travels
				all.add(s)
			}
			from = to
		}
		if len(all.subtrees) != 1 || all.subtrees[0].size != treeLeaves {
			t.Fatalf("%+v is left", all.subtrees)
		}
		if err := sameBits(all.subtrees[0].sum, want); err != nil {
			t.Fatal(err)
		}
	})
}

// TestExchange: on any number of ranks, more than microbatches, too, the sum has the same bits. The bytes that travel
// are those of an AllReduce, or up to twice as many where shares are uneven.
func TestExchange(t *testing.T) {
	const n = 1000
	want := treeSum(0, treeLeaves, n)
	for size := 1; size <= treeLeaves+2; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			received := make([]int, size)
			runRanks(t, size, func(ctx context.Context, c *collective.Comm) error {
				x := newExchange(c, treeLeaves, n)
				for range 2 {
					var own partialSums
					for m, end := shard(treeLeaves, c.Rank(), size); m < end; m++ {
						own.add(subtree{first: m, size: 1, sum: leaf(m, n)})
					}
					total := make([]float32, n)
					err := x.sum(ctx, own.subtrees, total)
					if err == nil {
						err = sameBits(total, want)
					}
					if err != nil {
						return err
					}
				}
				received[c.Rank()] = n - x.segments[c.Rank()] // of the AllGatherV
				for round, v := range x.received {
					received[c.Rank()] += len(v) - x.counts[round][c.Rank()]
				}
				return nil
			})
			for r, elements := range received {
				limit := 2*(n-n/size) + size // those of an AllReduce, with segments of unequal length
				if size&(size-1) != 0 {
					limit *= 2
				}
				if elements > limit {
					t.Errorf("rank %d receives %d elements, want %d at most", r, elements, limit)
				}
			}
		})
	}
}

// runRanks runs f on ranks that are goroutines.
func runRanks(t *testing.T, size int, f func(ctx context.Context, c *collective.Comm) error) {
	t.Helper()
	var ranks sync.WaitGroup
	for _, w := range collective.InProcess(size) {
		ranks.Go(func() {
			c, err := collective.New(t.Context(), w, collective.WithTopoCache(""))
			if err == nil {
				err = f(t.Context(), c)
			}
			if err == nil {
				err = c.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	ranks.Wait()
}
