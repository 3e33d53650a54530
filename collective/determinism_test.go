package collective

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// rough fills x with numbers of very different sizes, whose sum depends on the
// order of the additions.
func rough(x []float32, rank int) {
	for i := range x {
		x[i] = float32(math.Sin(float64(13*i+rank))) * float32(math.Exp2(float64((i+5*rank)%40-20)))
	}
}

// TestSameBits: a plan fixes the order of the additions, so that results do not differ between ranks or runs even where
// the order matters, whatever the timing of the ranks: one after the other, in flight, on another communicator.
func TestSameBits(t *testing.T) {
	const size, count = 7, 5000
	testutil.OneProcessor(t)
	comms, runs := testutil.Count(2, 4), testutil.Count(10, 25)
	if testutil.Race {
		comms, runs = 2, 10
	}
	for _, s := range slices.Concat(localAlgorithms, hostsAlgorithms) {
		t.Run(s, func(t *testing.T) {
			g := topo.UniformGraph(size)
			if strings.HasPrefix(s, "hierarchical") {
				g = testutil.Hosts(2, 4, testutil.Wires(1), testutil.Always(1)).
					Among([]int{0, 4, 5, 1, 6, 2, 7}) // three ranks and four
				g.Links[1].GBytesPerSecond = 5
			}
			can := make(map[plan.Kind]bool)
			for _, kind := range kinds {
				can[kind] = fits(s, kind, g)
			}
			fits := func(kind plan.Kind) bool { return can[kind] }
			var first [size][]byte // of the first run, by rank
			for range comms {
				mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
					got, err := roughSums(t, c, fits, count, runs)
					for run, bits := range got {
						if first[c.in.Rank] == nil {
							first[c.in.Rank] = bits
						} else if !bytes.Equal(bits, first[c.in.Rank]) {
							return fmt.Errorf("run %d gave other bits than the first one", run)
						}
					}
					return err
				}, WithGraph(g), WithAlgorithm(s))
			}
			for r := range first {
				if n := 4 * count; fits(plan.AllReduce) && !bytes.Equal(first[r][:n], first[0][:n]) {
					t.Errorf("AllReduce gave rank %d and rank 0 different sums", r)
				}
			}
			if n := 4 * count; fits(plan.AllReduce) && !orderMatters(first[0][:n], size) {
				t.Error("the sums do not depend on the order of the additions: nothing was tested")
			}
		})
	}
}

// roughSums makes all reductions that the shape supports, many times, every other time in flight side by side, and
// returns the bits of all results of each run.
func roughSums(t *testing.T, c *Comm, fits func(plan.Kind) bool, count, runs int) ([][]byte, error) {
	send, part := make([]float32, count*c.in.Size), make([]float32, count)
	rough(send, c.in.Rank)
	got := make([][]byte, runs)
	for run := range got {
		calls := []func() (Request, error){}
		all, one := make([]float32, count), make([]float32, count)
		if fits(plan.AllReduce) {
			calls = append(calls, func() (Request, error) { return StartAllReduce(c, send[:count], all, Sum) })
		}
		if fits(plan.Reduce) {
			calls = append(calls, func() (Request, error) { return StartReduce(c, send[:count], one, Sum, 3) })
		}
		if fits(plan.ReduceScatter) {
			calls = append(calls, func() (Request, error) { return StartReduceScatter(c, send, part, Sum) })
		}
		if len(calls) == 0 {
			break // the shape is for other collectives
		}
		var last Request
		for _, call := range calls {
			r, err := call()
			if err != nil {
				return nil, err
			}
			if last = r; run%2 == 0 {
				if err := r.Wait(t.Context()); err != nil {
					return nil, err
				}
			}
		}
		if err := last.Wait(t.Context()); err != nil {
			return nil, err
		}
		for _, x := range [][]float32{all, one, part} {
			got[run] = append(got[run], kernel.BytesOf(x)...)
		}
	}
	return got, nil
}

// orderMatters reports whether additions in the order of ranks, or in the reverse order, give other bits than sum.
func orderMatters(sum []byte, size int) bool {
	n := len(sum) / 4
	up, down, x := make([]float32, n), make([]float32, n), make([]float32, n)
	for r := range size {
		rough(x, r)
		for i := range x {
			up[i] += x[i]
		}
		rough(x, size-1-r)
		for i := range x {
			down[i] += x[i]
		}
	}
	return !bytes.Equal(sum, kernel.BytesOf(up)) || !bytes.Equal(sum, kernel.BytesOf(down))
}
