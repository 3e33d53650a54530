package collective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// bucketList is slices for Buckets. Some lie one behind the other, some have no elements, and one may be long.
type bucketList[T any] [][]T

func newBucketList[T any](rng *rand.Rand) (list bucketList[T]) {
	var room []T
	for range rng.IntN(12) {
		n := []int{0, 1, rng.IntN(40), rng.IntN(3000)}[rng.IntN(4)]
		if rng.IntN(12) == 0 {
			n = 1<<15 + rng.IntN(1<<16)
		}
		if len(room) < n || rng.IntN(3) == 0 {
			room = make([]T, n+rng.IntN(3*n+1))
		}
		list, room = append(list, room[:n]), room[n:]
	}
	return list
}

// TestBuckets: passes give the bits of a plain AllReduce of each slice, for random lists and sizes of buckets, whatever
// order each rank has, and from several goroutines.
func TestBuckets(t *testing.T) {
	everyComm(t, []int{1, 2, 3}, func(t *testing.T, size int, _ string, rng *rand.Rand, opts ...Option) {
		if testutil.Race && size != 3 {
			return
		}
		seed := rng.Uint64()
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			shared, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.Rank()+1)))
			for range testutil.Count(2, 10) {
				if err := randomBuckets(t.Context(), c, shared, own); err != nil {
					return err
				}
			}
			return nil
		}, opts...)
	})
}

// TestBucketsOnHosts: where ranks are on several hosts, too.
func TestBucketsOnHosts(t *testing.T) {
	seed := rand.Uint64()
	onEveryHost(t, func(c *Comm) error {
		shared, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.Rank()+1)))
		if err := randomBuckets(t.Context(), c, shared, own); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		return nil
	})
}

// randomBuckets makes passes with slices of a random type.
func randomBuckets(ctx context.Context, c *Comm, shared, own *rand.Rand) error {
	switch shared.IntN(5) {
	case 0:
		return bucketPasses(ctx, c, shared, own, func(n int) float64 { return float64(n) })
	case 1:
		return bucketPasses(ctx, c, shared, own, func(n int) Float16 { return float16Of(float64(n)) })
	case 2:
		half := func(n int) BFloat16 { return BFloat16(math.Float32bits(float32(n)) >> 16) }
		return bucketPasses(ctx, c, shared, own, half)
	case 3:
		return bucketPasses(ctx, c, shared, own, func(n int) int32 { return int32(n) })
	}
	return bucketPasses(ctx, c, shared, own, func(n int) float32 { return float32(n) })
}

// bucketPasses makes some passes over a random list. Sums of its small numbers are exact in every order.
func bucketPasses[T Number](ctx context.Context, c *Comm, shared, own *rand.Rand, number func(n int) T) error {
	list := newBucketList[T](shared)
	op, bytes := []Op{Sum, Avg, Max}[shared.IntN(3)], []int{0, 1, 5000, 1 << 18}[shared.IntN(4)]
	b, err := NewBuckets(ctx, c, list, op, bytes)
	if err != nil {
		return err
	}
	want := make(bucketList[T], len(list))
	for pass := range 4 {
		for i, s := range list {
			for k := range s {
				s[k] = number((k + i + pass*7 + c.Rank()) % 8)
			}
			want[i] = slices.Clone(s)
			if err := AllReduce(ctx, c, want[i], want[i], op); err != nil {
				return err
			}
		}
		var all sync.WaitGroup
		errs := make([]error, len(list))
		for _, i := range own.Perm(len(list)) {
			if pass%2 == 0 {
				errs[i] = b.Ready(i)
			} else {
				all.Go(func() { errs[i] = b.Ready(i) })
			}
		}
		all.Wait()
		if err := errors.Join(append(errs, b.Wait(ctx))...); err != nil {
			return fmt.Errorf("pass %d of %d slices in buckets of %d bytes: %w", pass, len(list), bytes, err)
		}
		for i, s := range list {
			if !slices.Equal(s, want[i]) {
				return fmt.Errorf("pass %d, buckets of %d bytes: slice %d of %d elements differs", pass, bytes, i, len(s))
			}
		}
	}
	return nil
}

// TestBucketsOrder: a bucket starts when it and those before it are ready. The first pass expects the last slice first,
// and later ones have the order of rank 0, which lie in buckets of two slices here.
func TestBucketsOrder(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		list := [][]float32{make([]float32, 10), make([]float32, 10), make([]float32, 10), make([]float32, 10), nil}
		b, err := NewBuckets(t.Context(), c, list, Sum, 80)
		if err != nil {
			return err
		}
		pass := func(order, started []int) error {
			for k, i := range order {
				if err := b.Ready(i); err != nil {
					return err
				}
				if len(b.started) != started[k] {
					return fmt.Errorf("rank %d: %d buckets have started after slices %v", c.Rank(), len(b.started), order[:k+1])
				}
			}
			return b.Wait(t.Context())
		}
		first, started := []int{0, 1, 2, 3, 4}, []int{0, 0, 0, 0, 2}
		if c.Rank() == 0 {
			first, started = []int{4, 3, 0, 2, 1}, []int{0, 0, 0, 1, 2}
		}
		if err := pass(first, started); err != nil {
			return err
		}
		// Now the first bucket has slices 4, 3 and 0, and the second 2 and 1.
		again := pass([]int{4, 3, 0, 2, 1}, []int{0, 0, 1, 1, 2})
		return errors.Join(again, pass([]int{1, 0, 3, 2, 4}, []int{0, 0, 0, 0, 2}))
	})
}

// TestBucketsBetweenCalls: large buckets are done while the program makes no call and is not in Wait. Their slices lie
// in one array or in several.
func TestBucketsBetweenCalls(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		const n = 1 << 18
		one := make([]int32, 3*n)
		for _, list := range [][][]int32{
			{one[:n], one[n : 2*n], one[2*n:]}, {make([]int32, n), make([]int32, n), make([]int32, n)},
		} {
			b, err := NewBuckets(t.Context(), c, list, Sum, 8*n)
			if err != nil {
				return err
			}
			for _, s := range list {
				for k := range s {
					s[k] = int32(k)
				}
			}
			if err := errors.Join(b.Ready(2), b.Ready(1)); err != nil {
				return err
			}
			if settled, err := settles(c, time.Minute); !settled || err != nil {
				return fmt.Errorf("rank %d: %d of 2 buckets have started and are under way: %w", c.Rank(), len(b.started), err)
			}
			if v := list[2][5]; v != 10 {
				return fmt.Errorf("rank %d: an element is %d before Wait, want 10", c.Rank(), v)
			}
			if err := errors.Join(b.Ready(0), b.Wait(t.Context())); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestBucketsMisused: wrong use is an ErrArgument that describes it, and the pass continues.
func TestBucketsMisused(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		ctx, x := t.Context(), make([]float32, 30)
		refused := func(err error, want string) error {
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("rank %d: %v, want an ErrArgument with %q", c.Rank(), err, want)
			}
			return nil
		}
		_, negative := NewBuckets(ctx, c, [][]float32{x}, Sum, -1)
		_, twice := NewBuckets(ctx, c, [][]float32{x[:10], nil, x[20:], x[5:11]}, Sum, 0)
		_, same := NewBuckets(ctx, c, [][]float32{x[10:], x[:10], x[10:]}, Sum, 0)
		_, op := NewBuckets(ctx, c, [][]float32{x}, Xor, 0)
		list := make([][]float32, 12)
		b, err := NewBuckets(ctx, c, list, Sum, 1)
		if err != nil {
			return err
		}
		err = errors.Join(refused(negative, "buckets of -1 bytes"), refused(twice, "slices 0 and 3 overlap"),
			refused(same, "slices 0 and 2 overlap"), refused(op, "xor is for integers and bools"),
			refused(b.Ready(-1), "slice -1 of 12"), refused(b.Ready(12), "slice 12 of 12"),
			refused(b.Wait(ctx), "12 of 12 slices are not ready: [0 1 2 3 4 5 6 7 8 9 10 11]"),
			b.Ready(3), refused(b.Ready(3), "slice 3 is ready already"))
		for i := range list {
			if i != 3 && i != 7 {
				err = errors.Join(err, b.Ready(i))
			}
		}
		return errors.Join(err, refused(b.Wait(ctx), "1 of 12 slices are not ready: [7]"), b.Ready(7), b.Wait(ctx))
	})
}

// TestBucketsDisagree: lists that differ are an ErrDisagree on all ranks, which names the difference and the ranks. The
// communicator stays usable.
func TestBucketsDisagree(t *testing.T) {
	list := func(lengths ...int) (l [][]float32) {
		for _, n := range lengths {
			l = append(l, make([]float32, n))
		}
		return l
	}
	other := map[string]func(ctx context.Context, c *Comm) error{
		"the number of slices: 3 on ranks 0,2; 4 on rank 1": func(ctx context.Context, c *Comm) error {
			_, err := NewBuckets(ctx, c, list(5, 6, 7, 0), Sum, 0)
			return err
		},
		"slice 1: 6 float32 on ranks 0,2; 7 float32 on rank 1": func(ctx context.Context, c *Comm) error {
			_, err := NewBuckets(ctx, c, list(5, 7, 6), Sum, 0)
			return err
		},
		"slice 0: 5 float32 on ranks 0,2; 5 int32 on rank 1": func(ctx context.Context, c *Comm) error {
			_, err := NewBuckets(ctx, c, [][]int32{make([]int32, 5), make([]int32, 6), make([]int32, 7)}, Sum, 0)
			return err
		},
		"the operation: sum on ranks 0,2; avg on rank 1": func(ctx context.Context, c *Comm) error {
			_, err := NewBuckets(ctx, c, list(5, 6, 7), Avg, 0)
			return err
		},
		"the bytes of a bucket: 2097152 on ranks 0,2; 100 on rank 1": func(ctx context.Context, c *Comm) error {
			_, err := NewBuckets(ctx, c, list(5, 6, 7), Sum, 100)
			return err
		},
	}
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		for _, want := range slices.Sorted(maps.Keys(other)) {
			call := func(ctx context.Context, c *Comm) error {
				_, err := NewBuckets(ctx, c, list(5, 6, 7), Sum, 0)
				return err
			}
			if c.Rank() == 1 {
				call = other[want]
			}
			err := call(t.Context(), c)
			if !errors.Is(err, ErrDisagree) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("rank %d: %v, want an ErrDisagree with %q", c.Rank(), err, want)
			}
		}
		return sumOn(t.Context(), c)
	})
}

// TestBucketsOfNamedTypes: Buckets compare the types of elements as an AllReduce does.
func TestBucketsOfNamedTypes(t *testing.T) {
	type weight float32
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			return onePass(t.Context(), c, []float32{1, 2})
		}
		return onePass(t.Context(), c, []weight{1, 2})
	})
}

// onePass makes Buckets of one slice, which is the same on all ranks, and sums it.
func onePass[T ~float32](ctx context.Context, c *Comm, x []T) error {
	want := []T{x[0] * T(c.Size()), x[1] * T(c.Size())}
	b, err := NewBuckets(ctx, c, [][]T{x}, Sum, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Ready(0), b.Wait(ctx)); err != nil || !slices.Equal(x, want) {
		return fmt.Errorf("%v, want %v: %w", x, want, err)
	}
	return nil
}

// TestBucketsOfLostRank: a rank is lost in a pass. The others get its cause from Ready or Wait, and from then on.
func TestBucketsOfLostRank(t *testing.T) {
	const size, lost = 4, 2
	errs := runRanks(t, size, func(w *fakeWorld, c *Comm) error {
		list := [][]float64{make([]float64, 1000), make([]float64, 1<<17), make([]float64, 50)}
		b, err := NewBuckets(t.Context(), c, list, Avg, 1000)
		if err != nil {
			return err
		}
		for pass := 0; ; pass++ {
			for i := range list {
				if pass == 2 && i == 1 && c.Rank() == lost {
					w.Fail(lost, errors.New("killed by SIGKILL"))
					return nil
				}
				if err := b.Ready(2 - i); err != nil {
					return err
				}
			}
			if err := b.Wait(t.Context()); err != nil {
				again := b.Wait(t.Context()) // may be nil: the pass was done
				for i := range list {
					again = errors.Join(again, b.Ready(i))
				}
				if !errors.Is(again, ErrRankLost) {
					t.Errorf("rank %d: a pass after the failure: %v", c.Rank(), again)
				}
				return err
			}
		}
	}, WithGraph(topo.UniformGraph(size)))
	for r, err := range errs {
		var re *RankError
		if r != lost && (!errors.As(err, &re) || re.Rank != lost || !errors.Is(err, ErrRankLost) ||
			!strings.Contains(err.Error(), "SIGKILL")) {
			t.Errorf("rank %d: %v, want ErrRankLost of rank %d with its cause", r, err, lost)
		}
	}
}

// TestBucketsBusyAndClosed: a slice that becomes ready while another goroutine is in a call stays so, and its bucket
// starts in Wait. After Close buckets start no more.
func TestBucketsBusyAndClosed(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		list := [][]int32{{1}, {2}}
		b, err := NewBuckets(t.Context(), c, list, Sum, 1)
		if err != nil {
			return err
		}
		if err := c.in.Claim("test"); err != nil {
			return err
		}
		busy := b.Ready(1)
		c.in.End()
		if !errors.Is(busy, ErrBusy) {
			return fmt.Errorf("rank %d: %v, want ErrBusy", c.Rank(), busy)
		}
		if err := errors.Join(b.Ready(0), b.Wait(t.Context())); err != nil || list[0][0] != 2 || list[1][0] != 4 {
			return fmt.Errorf("rank %d has %v: %w", c.Rank(), list, err)
		}
		if err := c.Close(); err != nil {
			return err
		}
		if err := b.Ready(1); !errors.Is(err, ErrClosed) {
			return fmt.Errorf("rank %d: %v, want ErrClosed", c.Rank(), err)
		}
		return nil
	})
}
