package main

import (
	"context"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective"
)

// solveOnRanks solves on ranks that are goroutines, which all must have the same result.
func solveOnRanks(t *testing.T, size, n int, tolerance float64) result {
	t.Helper()
	results := make([]result, size)
	var wg sync.WaitGroup
	for i, w := range collective.InProcess(size) {
		wg.Go(func() {
			c, err := collective.New(context.Background(), w)
			check(err)
			results[i] = solve(context.Background(), c, n, tolerance)
			check(c.Close())
		})
	}
	wg.Wait()
	for i, r := range results {
		if r != results[0] {
			t.Errorf("%d ranks: rank %d has %+v, rank 0 %+v", size, i, r, results[0])
		}
	}
	return results[0]
}

// serial computes the whole plate without ranks and messages.
func serial(n, steps int) uint64 {
	plate := newPart(n, []int{1, 1}, []int{0, 0})
	for range steps {
		plate.step()
	}
	_, checksum := plate.compare()
	return checksum
}

// For any grid of ranks, down to parts of few points, the temperatures are those of the plate in one piece, and are
// right: four times the points on a side make the error a sixteenth.
func TestAnyNumberOfRanks(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 5, 6, 7, 8} {
		for n, most := range map[int]float64{8: 2e-2, 32: 2e-3} {
			r := solveOnRanks(t, size, n, 1e-8)
			if want := serial(n, r.steps); r.checksum != want {
				t.Errorf("%d ranks, %d rows: checksum %x, in one piece %x", size, n, r.checksum, want)
			}
			if r.change > 1e-8 || !(r.worst < most) {
				t.Errorf("%d ranks, %d rows: change %.3g, error %.3g, want at most 1e-8, %v", size, n, r.change, r.worst, most)
			}
		}
	}
}
