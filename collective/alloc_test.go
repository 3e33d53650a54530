package collective

import (
	"errors"
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// TestAlloc makes every call on shared memory, in place and not, in every shape: memory that other ranks read in place
// must not change during the call. Each rank runs ahead and overwrites its slices at once.
func TestAlloc(t *testing.T) {
	sizes := []int{1, 2, 3, 4, 7}
	if testutil.Race {
		sizes = []int{2, 4}
	}
	for _, s := range localAlgorithms[:firstAlgorithms] {
		for _, size := range sizes {
			for _, part := range []int{100, 1024, 6000} { // a message below and above lendFrom
				t.Run(fmt.Sprintf("%v/ranks=%d/part=%d", s, size, part), func(t *testing.T) {
					t.Parallel()
					mustRun(t, size, func(_ *fakeWorld, c *Comm) error { return allocRounds(t, c, size*part) },
						WithAlgorithm(s), WithGraph(topo.UniformGraph(size)), WithSlots(4, 4096))
				})
			}
		}
	}
}

func allocRounds(t *testing.T, c *Comm, count int) error {
	a, err := Alloc[int32](c, count)
	if err != nil {
		return err
	}
	b, err := Alloc[int32](c, count)
	if err != nil {
		return err
	}
	rounds := 7 // one with every root
	if testutil.Thorough() && !testutil.Race {
		rounds = 20
	}
	for round := range rounds {
		in, out := a, b
		if round%2 == 1 {
			out = in
		}
		if err := allocRound(t, c, round, in, out); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return errors.Join(Barrier(t.Context(), c), Free(c, a), Free(c, b))
}

func allocRound(t *testing.T, c *Comm, round int, in, out []int32) error {
	ctx, part := t.Context(), len(in)/c.Size()
	fill := func() {
		for i := range in {
			in[i] = int32(c.Rank()*1000 + i + round)
		}
	}
	check := func(name string, got []int32, want func(i int) int) error {
		for i := range got {
			if int(got[i]) != want(i) {
				return fmt.Errorf("%s: element %d is %d, want %d", name, i, got[i], want(i))
			}
		}
		return nil
	}
	n, r := c.Size(), c.Rank()
	sum := func(i int) int { return n*(i+round) + 1000*n*(n-1)/2 }
	from := func(rank, i int) int { return rank*1000 + i + round }
	root := round % n

	fill()
	if err := errors.Join(AllReduce(ctx, c, in, out, Sum), check("AllReduce", out, sum)); err != nil {
		return err
	}
	fill()
	if err := errors.Join(Broadcast(ctx, c, in, out, root),
		check("Broadcast", out, func(i int) int { return from(root, i) })); err != nil {
		return err
	}
	fill()
	if err := Reduce(ctx, c, in, out, Sum, root); err != nil {
		return err
	}
	if r == root {
		if err := check("Reduce", out, sum); err != nil {
			return err
		}
	}
	fill()
	mine := out[r*part : (r+1)*part]
	if &in[0] != &out[0] {
		mine = in[:part]
	}
	copy(mine, in[:part])
	if err := errors.Join(AllGather(ctx, c, mine, out),
		check("AllGather", out, func(i int) int { return from(i/part, i%part) })); err != nil {
		return err
	}
	fill()
	mine = out[r*part : (r+1)*part]
	if err := errors.Join(ReduceScatter(ctx, c, in, mine, Sum),
		check("ReduceScatter", mine, func(i int) int { return sum(r*part + i) })); err != nil {
		return err
	}
	fill()
	return errors.Join(AllToAll(ctx, c, in, out),
		check("AllToAll", out, func(i int) int { return from(i/part, r*part+i%part) }))
}

// TestAllocEnds: freed blocks are allocated again, with zeros, and blocks that are too large are an error.
func TestAllocEnds(t *testing.T) {
	mustRun(t, 1, func(_ *fakeWorld, c *Comm) error {
		for range 100 {
			a, err := Alloc[float64](c, 1<<17) // 1 MiB of 2
			if err != nil {
				return err
			}
			if a[0] != 0 || a[len(a)-1] != 0 {
				return errors.New("memory is not zero")
			}
			a[0], a[len(a)-1] = 1, 1
			if _, err := Alloc[float64](c, 1<<18); err == nil {
				return errors.New("more than there is was given out")
			}
			if err := Free(c, a); err != nil {
				return err
			}
			if Free(c, a) == nil {
				return errors.New("freed twice")
			}
		}
		if _, err := Alloc[int8](c, -1); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("a negative length: %v", err)
		}
		return nil
	})
}

// TestAllocWithoutHeap: without addresses for shared memory the same program
// works, on ordinary memory.
func TestAllocWithoutHeap(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		x, err := Alloc[int32](c, 10000)
		if err != nil {
			return err
		}
		x[9999] = int32(c.Rank() + 1)
		if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
			return err
		}
		if x[9999] != 3 {
			return fmt.Errorf("sum is %d, want 3", x[9999])
		}
		return Free(c, x)
	}, func(c *setup.Config) { c.HeapBytes = 0 })
}

// TestAllocWithSmallHeaps: the rank with the fewest addresses limits the memory of all ranks.
func TestAllocWithSmallHeaps(t *testing.T) {
	for _, heaps := range [][]int{{4 << 20, 2 << 20}, {2 << 20, 4 << 20}, {2 << 20, 0}, {0, 2 << 20}} {
		job := newFakeJob(2)
		for r, err := range job.run(t, func(w *fakeWorld) error {
			c, err := New(t.Context(), w, WithTopoCache(""),
				func(c *setup.Config) { c.Connect, c.HeapBytes = setup.Connect, heaps[w.Rank()] })
			if err != nil {
				return err
			}
			least := min(heaps[0], heaps[1])
			if _, err := Alloc[int8](c, least+1); (err == nil) != (least == 0) {
				return fmt.Errorf("more than %d bytes: %v", least, err)
			}
			x, err := Alloc[int32](c, 10000)
			if err != nil {
				return err
			}
			x[9999] = int32(w.Rank() + 1)
			if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
				return err
			}
			if x[9999] != 3 {
				return fmt.Errorf("sum is %d, want 3", x[9999])
			}
			return errors.Join(Free(c, x), c.Close())
		}) {
			if err != nil {
				t.Errorf("heaps of %v bytes, rank %d: %v", heaps, r, err)
			}
		}
	}
}
