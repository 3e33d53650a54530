package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
)

// TestBucketsMatchNoOtherCall: a call within a pass on one rank, which the other makes after it, is an ErrMismatch that
// names Buckets, also where it is the AllReduce of a bucket in all but its form. Then Ready and Wait return this cause.
func TestBucketsMatchNoOtherCall(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *Comm, x []float32) error{
		"AllReduce": func(ctx context.Context, c *Comm, x []float32) error { return AllReduce(ctx, c, x, x, Sum) },
		"Init": func(ctx context.Context, c *Comm, x []float32) error {
			p, err := AllReduceInit(c, x, x, Sum)
			if err != nil {
				return err
			}
			return p.Run(ctx)
		},
	} {
		for _, order := range [][]int{{1, 0}, {0, 1}} { // the bucket of slice 1 starts at once, or both do in the end
			errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
				b, err := NewBuckets(t.Context(), c, [][]float32{make([]float32, 10), make([]float32, 10)}, Sum, 4)
				if err != nil {
					return err
				}
				plain := func() error { return call(t.Context(), c, make([]float32, 10)) }
				pass := func() error { return errors.Join(b.Ready(order[0]), b.Ready(order[1])) }
				if c.Rank() == 0 {
					err = errors.Join(plain(), pass(), b.Wait(t.Context()))
				} else {
					err = errors.Join(pass(), plain(), b.Wait(t.Context()))
				}
				for _, again := range []error{b.Ready(0), b.Wait(t.Context())} {
					if !errors.Is(again, ErrMismatch) || errors.Is(again, ErrArgument) {
						t.Errorf("%s, rank %d, after the failure: %v, want ErrMismatch", name, c.Rank(), again)
					}
				}
				return err
			})
			for r, err := range errs {
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "(sum of 10 float32, of Buckets)") ||
					!strings.Contains(err.Error(), "from the first Ready of a pass of Buckets to its Wait") {
					t.Errorf("%s in order %v: rank %d: %v, want ErrMismatch that names Buckets", name, order, r, err)
				}
			}
		}
	}
}

// TestBucketsInAnotherOrder: passes of two Buckets in another order on a rank are an ErrMismatch that names the order.
func TestBucketsInAnotherOrder(t *testing.T) {
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		var both [2]*Buckets[int32]
		for i := range both {
			b, err := NewBuckets(t.Context(), c, [][]int32{{1}}, Sum, 0)
			if err != nil {
				return err
			}
			both[i] = b
		}
		first, second := both[c.Rank()], both[1-c.Rank()]
		return errors.Join(first.Ready(0), first.Wait(t.Context()), second.Ready(0), second.Wait(t.Context()))
	})
	for r, err := range errs {
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "of Buckets), as bucket ") ||
			!strings.Contains(err.Error(), "ranks make several Buckets, and their passes, in the same order") {
			t.Errorf("rank %d: %v, want ErrMismatch of two Buckets", r, err)
		}
	}
}

// TestMoreBucketsThanCalls: a pass of more buckets than may be under way ends, whatever order each rank has. Another
// rank may start its first bucket only after all of its slices are ready.
func TestMoreBucketsThanCalls(t *testing.T) {
	const count, passes = 3*comm.InFlight - 50, 3
	var backward []int // the order in which the first pass starts buckets
	for i := range count {
		backward = append(backward, count-1-i)
	}
	for size := 2; size <= 3; size++ {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			of := make([][]int32, count)
			for i := range of {
				of[i] = make([]int32, 1+i%2)
			}
			b, err := NewBuckets(t.Context(), c, of, Sum, 1)
			random := rand.New(rand.NewPCG(36, uint64(c.Rank())))
			for pass := range passes {
				order := slices.Clone(backward)
				switch (c.Rank() + pass) % 3 {
				case 1:
					slices.Reverse(order)
				case 2:
					random.Shuffle(count, func(i, j int) { order[i], order[j] = order[j], order[i] })
				}
				for _, i := range order {
					of[i][0] = int32(i + pass)
					err = cmp.Or(err, b.Ready(i))
				}
				err = cmp.Or(err, b.Wait(t.Context()))
				for i := range of {
					if want := int32(size * (i + pass)); err == nil && of[i][0] != want {
						return fmt.Errorf("pass %d: slice %d is %d, want %d", pass, i, of[i][0], want)
					}
				}
			}
			return err
		})
	}
}

// TestReadyWaitsForNoRank: Ready returns also where the calls under way are as many as there can be and the other rank
// has started none. Where it waits for a message that follows the last Ready, that is a circle otherwise.
func TestReadyWaitsForNoRank(t *testing.T) {
	const count = 2*comm.InFlight + 50
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		of := make([][]int32, count)
		for i := range of {
			of[i] = []int32{int32(i)}
		}
		b, err := NewBuckets(t.Context(), c, of, Sum, 1)
		if err != nil {
			return err
		}
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		defer d.Close()
		for pass := range 2 {
			if c.Rank() == 1 {
				err = received(t.Context(), d, make([]int32, 1), 0, pass)
			}
			for i := range slices.Backward(of) {
				of[i][0] = int32(i + pass)
				err = cmp.Or(err, b.Ready(i))
			}
			if c.Rank() == 0 {
				err = cmp.Or(err, Send(t.Context(), d, []int32{1}, 1, pass))
			}
			err = cmp.Or(err, b.Wait(t.Context()))
			for i := range of {
				if want := int32(2 * (i + pass)); err == nil && of[i][0] != want {
					return fmt.Errorf("pass %d: slice %d is %d, want %d", pass, i, of[i][0], want)
				}
			}
		}
		return err
	})
}

// TestContextOfManyBuckets: the context of Wait ends it also while it waits for room.
func TestContextOfManyBuckets(t *testing.T) {
	failed := make(chan struct{})
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		of := make([][]int32, 2*comm.InFlight)
		for i := range of {
			of[i] = []int32{1}
		}
		b, err := NewBuckets(t.Context(), c, of, Sum, 1)
		if err != nil || c.Rank() == 1 {
			<-failed
			return cmp.Or(err, Barrier(t.Context(), c))
		}
		for i := range of {
			err = cmp.Or(err, b.Ready(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		defer close(failed)
		return cmp.Or(err, b.Wait(ctx))
	})
	for r, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestReadyAfterClose: it is an ErrClosed also where the slice completes no bucket.
func TestReadyAfterClose(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		b, err := NewBuckets(t.Context(), d, [][]int32{{1}, {2}, {3}}, Sum, 8)
		if err := cmp.Or(err, d.Close()); err != nil {
			return err
		}
		for i := range 3 {
			if err := b.Ready(i); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "Buckets.Ready") {
				return fmt.Errorf("slice %d: %w", i, err)
			}
		}
		return nil
	})
}
