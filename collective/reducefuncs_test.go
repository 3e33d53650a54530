package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// affine is x -> a*x + b, modulo 2^32. Its composition is associative and not commutative.
type affine struct{ A, B uint32 }

func (f affine) then(g affine) affine { return affine{g.A * f.A, g.A*f.B + g.B} }

func thenAll(into, from []affine) {
	for i := range into {
		into[i] = into[i].then(from[i])
	}
}

// TestFuncs combines by an operation that shows the order of the ranks, on 1 to 9 ranks and 18, in place and not, from
// one element to many, and compares with the sequential composition of the ranks' functions.
func TestFuncs(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 18} {
		for _, count := range []int{0, 1, 5, testutil.Count(3000, 50000)} {
			rng := rand.New(rand.NewPCG(uint64(size), uint64(count)))
			given := make([][]affine, size)
			for r := range given {
				for range count {
					given[r] = append(given[r], affine{rng.Uint32(), rng.Uint32()})
				}
			}
			want := slices.Clone(given[0])
			for _, g := range given[1:] {
				thenAll(want, g)
			}
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				send, recv := slices.Clone(given[c.Rank()]), make([]affine, count)
				if err := AllReduceFunc(t.Context(), c, send, recv, thenAll); err != nil || !slices.Equal(recv, want) {
					return fmt.Errorf("AllReduceFunc of %d: %w or wrong", count, err)
				}
				if !slices.Equal(send, given[c.Rank()]) {
					return errors.New("send has changed")
				}
				root := count % size
				if err := ReduceFunc(t.Context(), c, send, recv[:count:count], thenAll, root); err != nil {
					return err
				}
				if c.Rank() == root && !slices.Equal(recv, want) {
					return fmt.Errorf("ReduceFunc of %d to %d is wrong", count, root)
				}
				if err := AllReduceFunc(t.Context(), c, send, send, thenAll); err != nil || !slices.Equal(send, want) {
					return fmt.Errorf("AllReduceFunc in place of %d: %w or wrong", count, err)
				}
				return nil
			})
		}
	}
}

// TestScan compares Scan and ExScan with a sequential sum over the ranks up to each one.
func TestScan(t *testing.T) {
	for size := 1; size <= 9; size++ {
		for _, count := range []int{0, 1, 1000} {
			value := func(r, i int) int64 { return int64(100*r + i%7 + 1) }
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				send, want, before := make([]int64, count), make([]int64, count), make([]int64, count)
				for i := range count {
					send[i] = value(c.Rank(), i)
					for r := range c.Rank() {
						before[i] += value(r, i)
					}
					want[i] = before[i] + send[i]
				}
				recv := newMemory[int64](count)
				recv.expect(0, want)
				if err := errors.Join(Scan(t.Context(), c, send, recv.body, Sum), recv.check()); err != nil {
					return fmt.Errorf("Scan: %w", err)
				}
				recv = newMemory[int64](count)
				if recv.expect(0, before); c.Rank() == 0 {
					recv.expect(0, nil)
				}
				if err := errors.Join(ExScan(t.Context(), c, send, recv.body, Sum), recv.check()); err != nil {
					return fmt.Errorf("ExScan: %w", err)
				}
				if err := Scan(t.Context(), c, send, send, Max); err != nil {
					return err
				}
				for i, v := range send {
					if v != value(c.Rank(), i) { // values grow with the rank
						return fmt.Errorf("element %d of a Scan in place by Max is %d", i, v)
					}
				}
				return nil
			})
		}
	}
}

// TestScatteredFuncs compares ScanFunc, ExScanFunc and ReduceScatterFunc of an operation that shows the order of ranks
// with the functions of the ranks one after the other, on 1 to 8 ranks, of random elements, in place and not.
func TestScatteredFuncs(t *testing.T) {
	for size := 1; size <= 8; size++ {
		for _, count := range []int{0, 1, 5, testutil.Count(1000, 20000)} {
			rng := rand.New(rand.NewPCG(uint64(size), uint64(count)))
			given := make([][]affine, size)
			upTo := make([][]affine, size) // this rank included
			for r := range given {
				for range count * size {
					given[r] = append(given[r], affine{rng.Uint32(), rng.Uint32()})
				}
				if upTo[r] = slices.Clone(given[r]); r > 0 {
					upTo[r] = slices.Clone(upTo[r-1])
					thenAll(upTo[r], given[r])
				}
			}
			mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
				r := c.Rank()
				send, recv := slices.Clone(given[r]), make([]affine, count*size)
				if err := ScanFunc(t.Context(), c, send, recv, thenAll); err != nil || !slices.Equal(recv, upTo[r]) {
					return fmt.Errorf("ScanFunc of %d: %w or wrong", count, err)
				}
				clear(recv)
				before := slices.Clone(recv)
				if r > 0 {
					before = upTo[r-1]
				}
				if err := ExScanFunc(t.Context(), c, send, recv, thenAll); err != nil || !slices.Equal(recv, before) {
					return fmt.Errorf("ExScanFunc of %d: %w or wrong", count, err)
				}
				part, want := make([]affine, count), upTo[size-1][r*count:][:count]
				if err := ReduceScatterFunc(t.Context(), c, send, part, thenAll); err != nil || !slices.Equal(part, want) {
					return fmt.Errorf("ReduceScatterFunc of %d: %w or wrong", count, err)
				}
				if !slices.Equal(send, given[r]) {
					return errors.New("send has changed")
				}
				inPlace := slices.Clone(given[r])
				copy(inPlace[r*count:], want)
				own := send[r*count:][:count]
				err := ReduceScatterFunc(t.Context(), c, send, own, thenAll)
				if err != nil || !slices.Equal(send, inPlace) {
					return fmt.Errorf("ReduceScatterFunc in place of %d: %w or wrong", count, err)
				}
				send = slices.Clone(given[r])
				if err := ScanFunc(t.Context(), c, send, send, thenAll); err != nil || !slices.Equal(send, upTo[r]) {
					return fmt.Errorf("ScanFunc in place of %d: %w or wrong", count, err)
				}
				return nil
			})
		}
	}
}

// TestFuncMismatch: if ranks differ in count, root, element or function, all ranks get an error.
func TestFuncMismatch(t *testing.T) {
	keep := func(into, from []int32) {}
	for name, odd := range map[string]func(c *Comm, x []int32) error{
		"count": func(c *Comm, x []int32) error { return ReduceFunc(t.Context(), c, x[1:], x[1:], keep, 0) },
		"element": func(c *Comm, x []int32) error {
			y := make([]float32, 6)
			return ReduceFunc(t.Context(), c, y, y, func(into, from []float32) {}, 0)
		},
		"root":      func(c *Comm, x []int32) error { return ReduceFunc(t.Context(), c, x, x, keep, 1) },
		"call":      func(c *Comm, x []int32) error { return Scan(t.Context(), c, x, x, Sum) },
		"scan":      func(c *Comm, x []int32) error { return ScanFunc(t.Context(), c, x, x, keep) },
		"scatter":   func(c *Comm, x []int32) error { return ReduceScatterFunc(t.Context(), c, x, x[2:4], keep) },
		"operation": func(c *Comm, x []int32) error { return Scan(t.Context(), c, x, x, Max) },
		"type":      func(c *Comm, x []int32) error { y := make([]uint32, 6); return Scan(t.Context(), c, y, y, Sum) },
		"other":     func(c *Comm, x []int32) error { return AllGather(t.Context(), c, x[:3], make([]int32, 9)) },
	} {
		t.Run(name, func(t *testing.T) {
			errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
				x := make([]int32, 6)
				if c.Rank() == 1 {
					return odd(c, x)
				}
				if name == "operation" || name == "type" {
					return Scan(t.Context(), c, x, x, Sum)
				}
				return ReduceFunc(t.Context(), c, x, x, keep, 0)
			})
			wantText := map[string]string{"operation": "Scan #1 (max of 6 int32)", "type": "Scan #1 (sum of 6 uint32)",
				"count":   "ReduceFunc #1 (5 int32",
				"element": "ReduceFunc #1 (6 float32",
				"root":    ", root 1)"}[name]
			for r, err := range errs {
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), wantText) {
					t.Errorf("rank %d: %v, want ErrMismatch with %q", r, err, wantText)
				}
				if !errors.Is(err, ErrMismatch) || !regexp.MustCompile("ReduceFunc|Scan").MatchString(err.Error()) {
					t.Errorf("rank %d: %v, want ErrMismatch of a ReduceFunc or Scan", r, err)
				}
			}
		})
	}
}

// TestFuncMismatchOfNothing: calls without elements are compared as well.
func TestFuncMismatchOfNothing(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		op := Sum
		if c.Rank() == 1 {
			op = Max
		}
		return Scan(t.Context(), c, []int32{}, []int32{}, op)
	}) {
		if wantText := "Scan #1 (max of 0 int32)"; !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), wantText) {
			t.Errorf("rank %d: %v, want ErrMismatch with %q", r, err, wantText)
		}
	}
}

// TestFuncArguments: invalid arguments are refused before anything is sent.
func TestFuncArguments(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		x := make([]int32, 6)
		text, pair := []string{"a"}, []struct{ P *int }{{}}
		for name, err := range map[string]error{
			"strings":         AllReduceFunc(t.Context(), c, text, text, func(into, from []string) {}),
			"pointers":        AllReduceFunc(t.Context(), c, pair, pair, func(into, from []struct{ P *int }) {}),
			"nil":             AllReduceFunc(t.Context(), c, x, x, nil),
			"lengths":         AllReduceFunc(t.Context(), c, x, x[1:], func(into, from []int32) {}),
			"overlap":         AllReduceFunc(t.Context(), c, x[1:], x[:5], func(into, from []int32) {}),
			"no recv":         AllReduceFunc(t.Context(), c, x, nil, func(into, from []int32) {}),
			"no recv of Scan": Scan(t.Context(), c, x, nil, Sum),
			"no root":         ReduceFunc(t.Context(), c, x, x, func(into, from []int32) {}, -1),
			"root":            ReduceFunc(t.Context(), c, x, x, func(into, from []int32) {}, 2),
			"parts":           ReduceScatterFunc(t.Context(), c, x, x[:2], func(into, from []int32) {}),
			"other part":      ReduceScatterFunc(t.Context(), c, x, x[1:4], func(into, from []int32) {}),
			"no function":     ScanFunc(t.Context(), c, x, x, nil),
			"part overlap":    ExScanFunc(t.Context(), c, x[1:], x[:5], func(into, from []int32) {}),
			"average":         Scan(t.Context(), c, x, x, Avg),
			"op":              ExScan(t.Context(), c, x, x, 0),
		} {
			if !errors.Is(err, ErrArgument) {
				return fmt.Errorf("%s: %v, want ErrArgument", name, err)
			}
		}
		return Scan(t.Context(), c, x, x, Sum)
	})
}

// TestFuncHoldsTheCommunicator: a call that f makes is refused, and the reduction continues.
func TestFuncHoldsTheCommunicator(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		x := []int32{1}
		busy := ErrBusy // where f is not called
		err := AllReduceFunc(t.Context(), c, x, x, func(into, from []int32) {
			busy = Barrier(t.Context(), c)
			into[0] += from[0]
		})
		if err != nil || x[0] != 3 || !errors.Is(busy, ErrBusy) {
			return fmt.Errorf("%v, %w, and within it %w", x, err, busy)
		}
		return Barrier(t.Context(), c)
	})
}

// block is an element that is larger than a slot of small links.
type block [100]affine

// TestLargeElements combines elements that are larger than a slot, and such as are no multiple of 8 bytes, and compares
// with the sequential composition.
func TestLargeElements(t *testing.T) {
	for size := 1; size <= 4; size++ {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			return errors.Join(composed(t, c, func(b *block, i int) *affine { return &b[i%100] }),
				composed(t, c, func(b *[3]affine, i int) *affine { return &b[i%3] }))
		}, WithSlots(2, 256))
	}
}

// composed makes every call with a function of elements that consist of several affine functions, which at returns.
func composed[T any](t *testing.T, c *Comm, at func(b *T, i int) *affine) error {
	const count = 50
	size, me := c.Size(), c.Rank()
	combine := func(into, from []T) {
		for i := range into {
			for j := range 100 {
				if a := at(&into[i], j); j == 0 || a != at(&into[i], 0) && j < 3 {
					*a = a.then(*at(&from[i], j))
				}
			}
		}
	}
	var given, upTo [][]T
	for r := range size {
		rng, g := rand.New(rand.NewPCG(uint64(r), 1)), make([]T, count*size)
		for i := range g {
			for j := range 3 {
				*at(&g[i], j) = affine{rng.Uint32(), rng.Uint32()}
			}
		}
		sum := slices.Clone(g)
		if r > 0 {
			sum = slices.Clone(upTo[r-1])
			combine(sum, g)
		}
		given, upTo = append(given, g), append(upTo, sum)
	}
	all, before := upTo[size-1], make([]T, count*size)
	if me > 0 {
		before = upTo[me-1]
	}
	recv, part, atRoot := make([]T, count*size), make([]T, count), make([]T, count*size)
	scanned, exScanned := make([]T, count*size), make([]T, count*size)
	err := errors.Join(AllReduceFunc(t.Context(), c, given[me], recv, combine),
		ReduceScatterFunc(t.Context(), c, given[me], part, combine),
		ReduceFunc(t.Context(), c, given[me], atRoot, combine, size-1),
		ScanFunc(t.Context(), c, given[me], scanned, combine),
		ExScanFunc(t.Context(), c, given[me], exScanned, combine))
	for name, pair := range map[string][2][]T{"AllReduceFunc": {recv, all}, "ScanFunc": {scanned, upTo[me]},
		"ReduceScatterFunc": {part, all[me*count:][:count]}, "ExScanFunc": {exScanned, before}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			err = errors.Join(err, fmt.Errorf("%s of %T is wrong", name, *new(T)))
		}
	}
	if me == size-1 && !reflect.DeepEqual(atRoot, all) {
		err = errors.Join(err, fmt.Errorf("ReduceFunc of %T is wrong", *new(T)))
	}
	return err
}
