package collective

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/topo"
)

// The oracle of every test here is the sum (product, least, greatest, mean) of
// what the ranks put in, computed one rank after the other in float64. The
// inputs are small whole numbers, so that every element type holds every result
// exactly and the order of the additions does not matter.

func input(rank, i int, op Op) float64 {
	if op == Prod {
		return float64(1 + (rank+i)%2)
	}
	return float64((rank*7+i)%5 + 1)
}

func expected(size, i int, op Op) float64 {
	v := input(0, i, op)
	for r := 1; r < size; r++ {
		x := input(r, i, op)
		switch op {
		case Sum, Avg:
			v += x
		case Prod:
			v *= x
		case Min:
			v = min(v, x)
		case Max:
			v = max(v, x)
		}
	}
	return v
}

// codec makes elements of T from whole numbers and back.
type codec[T Number] struct {
	name  string
	of    func(float64) T
	back  func(T) float64
	isInt bool
}

func plain[T int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64](name string, isInt bool) codec[T] {
	return codec[T]{name, func(v float64) T { return T(v) }, func(v T) float64 { return float64(v) }, isInt}
}

var (
	float16s = codec[Float16]{"float16", func(v float64) Float16 {
		if v == 0 {
			return 0
		}
		f, e := math.Frexp(v) // v = f * 2^e, f in [0.5, 1); whole numbers up to 2048 are exact
		return Float16(uint16(e-1+15)<<10 | uint16((f*2-1)*1024))
	}, func(h Float16) float64 {
		if h == 0 {
			return 0
		}
		return math.Ldexp(1+float64(h&0x3ff)/1024, int(h>>10&0x1f)-15)
	}, false}
	bfloat16s = codec[BFloat16]{"bfloat16",
		func(v float64) BFloat16 { return BFloat16(math.Float32bits(float32(v)) >> 16) },
		func(b BFloat16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }, false}
)

func (k codec[T]) fill(rank, count int, op Op) []T {
	s := make([]T, count)
	for i := range s {
		s[i] = k.of(input(rank, i, op))
	}
	return s
}

// check compares got with what op over all ranks gives.
func (k codec[T]) check(got []T, size int, op Op) error {
	for i, g := range got {
		want := expected(size, i, op)
		if op == Avg {
			want /= float64(size)
			if k.isInt {
				want = math.Trunc(want)
			}
			if diff := math.Abs(k.back(g) - want); diff > want/128 { // one rounding of the narrowest type
				return fmt.Errorf("%s %s: element %d is %v, want %v", k.name, op, i, k.back(g), want)
			}
			continue
		}
		if k.back(g) != want {
			return fmt.Errorf("%s %s: element %d is %v, want %v", k.name, op, i, k.back(g), want)
		}
	}
	return nil
}

// allCalls makes every call with elements of type T on one communicator.
func allCalls[T Number](t *testing.T, c *Comm, k codec[T]) error {
	counts := []int{0, 1, 7, 1000, 20011}
	if c.plans.slotBytes < 1024 {
		counts = []int{0, 1, 7, 1000}
	}
	ctx := t.Context()
	for _, op := range []Op{Sum, Prod, Min, Max, Avg} {
		for _, n := range counts {
			root := n % c.Size()
			send := k.fill(c.Rank(), n, op)
			keep := slices.Clone(send)
			recv := make([]T, n)
			if err := AllReduce(ctx, c, send, recv, op); err != nil {
				return err
			}
			if !slices.Equal(send, keep) {
				return fmt.Errorf("AllReduce changed send")
			}
			if err := k.check(recv, c.Size(), op); err != nil {
				return fmt.Errorf("AllReduce of %d: %w", n, err)
			}
			if err := AllReduce(ctx, c, send, send, op); err != nil {
				return err
			}
			if err := k.check(send, c.Size(), op); err != nil {
				return fmt.Errorf("AllReduce of %d in place: %w", n, err)
			}
			if err := reduceBothWays(t, c, k, op, n, root); err != nil {
				return err
			}
		}
	}
	return broadcastAll(t, c, k, counts)
}

func reduceBothWays[T Number](t *testing.T, c *Comm, k codec[T], op Op, n, root int) error {
	send := k.fill(c.Rank(), n, op)
	var recv []T
	if c.Rank() == root {
		recv = make([]T, n)
	}
	for _, recv := range [][]T{recv, send} {
		if err := Reduce(t.Context(), c, send, recv, op, root); err != nil {
			return err
		}
		if c.Rank() != root {
			continue
		}
		if err := k.check(recv, c.Size(), op); err != nil {
			return fmt.Errorf("Reduce of %d to %d: %w", n, root, err)
		}
	}
	if c.Rank() != root && !slices.Equal(send, k.fill(c.Rank(), n, op)) {
		return fmt.Errorf("Reduce to %d changed send of rank %d", root, c.Rank())
	}
	return nil
}

func broadcastAll[T Number](t *testing.T, c *Comm, k codec[T], counts []int) error {
	for _, n := range counts {
		for root := range c.Size() {
			want := k.fill(root, n, Sum)
			recv := make([]T, n)
			send := []T(nil)
			if c.Rank() == root {
				send = want
				if n%2 == 1 {
					recv, send = want, want // in place
				}
			}
			if err := Broadcast(t.Context(), c, send, recv, root); err != nil {
				return err
			}
			if !slices.Equal(recv, want) {
				return fmt.Errorf("%s: Broadcast of %d from %d: wrong elements", k.name, n, root)
			}
			if err := Barrier(t.Context(), c); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestAllCalls makes every call, in place and not, with every element type and
// operation, in every shape of plan, with slots so small that every message
// wraps around its links many times.
func TestAllCalls(t *testing.T) {
	for size := 1; size <= 9; size++ {
		for _, shape := range []struct {
			slots, bytes int
			shape        shape
		}{{8, 32 << 10, flat}, {2, 64, oneTree}, {2, 64, allTrees}, {4, 4096, directOne}, {2, 256, directMany}} {
			t.Run(fmt.Sprintf("ranks=%d/slots=%dx%d/%v", size, shape.slots, shape.bytes, shape.shape), func(t *testing.T) {
				mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
					if err := allCalls(t, c, plain[float32]("float32", false)); err != nil {
						return err
					}
					if shape.slots == 2 && size > 3 {
						return nil // the other types take the same path through the slots
					}
					return errors.Join(
						allCalls(t, c, plain[float64]("float64", false)),
						allCalls(t, c, plain[int8]("int8", true)),
						allCalls(t, c, plain[uint8]("uint8", true)),
						allCalls(t, c, plain[int32]("int32", true)),
						allCalls(t, c, plain[int64]("int64", true)),
						allCalls(t, c, plain[uint32]("uint32", true)),
						allCalls(t, c, plain[uint64]("uint64", true)),
						allCalls(t, c, bfloat16s),
						allCalls(t, c, float16s),
					)
				}, WithSlots(shape.slots, shape.bytes), WithGraph(topo.UniformGraph(size)),
					func(c *config) { c.shape = &shape.shape })
			})
		}
	}
}

// TestSameBits: a plan fixes the order of the additions, so that results do not
// differ between ranks or runs even where the order matters.
func TestSameBits(t *testing.T) {
	const size, count = 7, 5000
	var first []float32
	for range 20 {
		results := make([][]float32, size)
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			s := make([]float32, count)
			for i := range s {
				s[i] = float32(math.Sin(float64(i*size+c.Rank()))) * float32(math.Exp2(float64((i+c.Rank())%40-20)))
			}
			results[c.Rank()] = s
			return AllReduce(t.Context(), c, s, s, Sum)
		}, WithGraph(topo.UniformGraph(size)))
		for r := range results {
			if first == nil {
				first = results[r]
			}
			for i := range first {
				if math.Float32bits(first[i]) != math.Float32bits(results[r][i]) {
					t.Fatalf("rank %d: element %d is %v, in the first run on rank 0 it was %v", r, i, results[r][i], first[i])
				}
			}
		}
	}
}
