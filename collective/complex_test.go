package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// complexCalls compares reductions of complex numbers, whose parts are whole, with Go's arithmetic.
func complexCalls[T ~complex64 | ~complex128](ctx context.Context, c *Comm, of func(re, im int) T) error {
	const count = 1003
	size := c.Size()
	in := func(rank, i int) T { return of((rank+i)%3-1, (2*rank+i)%4-2) }
	send, sum, prod, mul := make([]T, count), make([]T, count), make([]T, count), make([]T, count)
	for i := range count {
		send[i] = in(c.Rank(), i)
		prod[i] = 1
		for r := range size {
			sum[i] += in(r, i)
			prod[i] *= in(r, i)
			mul[i] += in(r, i) * of(1, r)
		}
	}
	mean := slices.Clone(sum)
	for i := range mean {
		mean[i] /= of(size, 0)
	}
	recv, scan := make([]T, count), make([]T, count)
	check := func(name string, want []T, err error) error {
		for i := range want {
			if err == nil && recv[i] != want[i] {
				err = fmt.Errorf("%s: element %d is %v, want %v", name, i, recv[i], want[i])
			}
		}
		clear(recv)
		return err
	}
	for i := range scan {
		scan[i] = 1
		for r := range c.Rank() + 1 {
			scan[i] *= in(r, i)
		}
	}
	counts := make([]int, size)
	for i := range counts {
		counts[i] = count / size
	}
	counts[0] += count % size
	before := 0
	for r := range c.Rank() {
		before += counts[r]
	}
	return cmp.Or(check("sum", sum, AllReduce(ctx, c, send, recv, Sum)),
		check("product", prod, AllReduce(ctx, c, send, recv, Prod)),
		check("average", mean, AllReduce(ctx, c, send, recv, Avg)),
		check("factor", mul, AllReducePreMul(ctx, c, send, recv, of(1, c.Rank()))),
		check("part", prod[before:][:counts[c.Rank()]],
			ReduceScatterV(ctx, c, send, recv[:counts[c.Rank()]], counts, Prod)),
		check("product up to a rank", scan, Scan(ctx, c, send, recv, Prod)))
}

// TestComplex: Sum, Prod and Avg of complex numbers in every shape of plan, whose chunks are cut between them.
func TestComplex(t *testing.T) {
	for _, size := range []int{1, 2, 4} { // an average by them is exact
		for _, s := range localAlgorithms[:firstAlgorithms] {
			t.Run(fmt.Sprintf("ranks=%d/%v", size, s), func(t *testing.T) {
				mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
					type phase complex64
					return errors.Join(
						complexCalls(t.Context(), c, func(re, im int) complex128 { return complex(float64(re), float64(im)) }),
						complexCalls(t.Context(), c, func(re, im int) phase { return phase(complex(float32(re), float32(im))) }))
				}, WithGraph(topo.UniformGraph(size)), WithAlgorithm(s), WithSlots(2, 64))
			})
		}
	}
}

// logical compares an operation on x, which is true on this rank or is not, with that on all ranks in order.
func logical[T Element](ctx context.Context, c *Comm, op Op, x, yes, no T, want bool) error {
	send, recv := slices.Repeat([]T{x}, 1001), make([]T, 1001)
	err := AllReduce(ctx, c, send, recv, op)
	result := no
	if want {
		result = yes
	}
	for i, v := range recv {
		if err == nil && v != result {
			err = fmt.Errorf("%v of %T: element %d is %v, want %v", op, x, i, v, result)
		}
	}
	return err
}

// TestLogical: every number but 0 is true, and bools have no other operations than these and And, Or and Xor.
func TestLogical(t *testing.T) {
	const size = 3
	for inputs := range 1 << size { // bit r: the input of rank r
		and, or, xor := true, false, false
		for r := range size {
			is := inputs>>r&1 == 1
			and, or, xor = and && is, or || is, xor != is
		}
		want := map[Op]bool{LogicalAnd: and, LogicalOr: or, LogicalXor: xor, And: and, Or: or, Xor: xor}
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			ctx, is := t.Context(), inputs>>c.Rank()&1
			for _, op := range []Op{And, Or, Xor, LogicalAnd, LogicalOr, LogicalXor} {
				err := logical(ctx, c, op, is == 1, true, false, want[op])
				if op >= LogicalAnd { // of numbers without a bit in common
					err = cmp.Or(err, logical(ctx, c, op, int8(is<<c.Rank()), 1, 0, want[op]),
						logical(ctx, c, op, uint16(is<<(15-c.Rank())), 1, 0, want[op]),
						logical(ctx, c, op, int32(-is), 1, 0, want[op]),
						logical(ctx, c, op, uint64(is)<<(40+c.Rank()), 1, 0, want[op]))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestTruths: logical operations give 0 or 1 also where a rank gets the values of one rank alone.
func TestTruths(t *testing.T) {
	of := func(rank int) []int32 { return []int32{int32(rank << 5), int32(rank<<5 + 4)} } // rank 0 has a 0
	combined := func(op Op, ranks int) []int32 {
		var all []int32
		for i := range 2 {
			trues := 0
			for r := range ranks {
				if of(r)[i] != 0 {
					trues++
				}
			}
			is := map[Op]bool{LogicalAnd: trues == ranks, LogicalOr: trues > 0, LogicalXor: trues%2 == 1}[op]
			all = append(all, map[bool]int32{true: 1}[is])
		}
		return all
	}
	for size := 1; size <= 3; size++ {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			ctx, x := t.Context(), of(c.Rank())
			for _, op := range []Op{LogicalAnd, LogicalOr, LogicalXor} {
				whole, parts, upTo, before := make([]int32, 2), make([]int32, 2), make([]int32, 2), []int32{-1, -1}
				one, err := AllReduceValue(ctx, c, x[1], op)
				err = cmp.Or(err, AllReduce(ctx, c, x, whole, op), Scan(ctx, c, x, upTo, op), ExScan(ctx, c, x, before, op),
					AllReduceCoalesced(ctx, c, [][]int32{x[:1], x[1:]}, [][]int32{parts[:1], parts[1:]}, op))
				if err != nil {
					return err
				}
				of := combined(op, size)
				want := [][]int32{of[1:], of, of, combined(op, c.Rank()+1), combined(op, c.Rank())}
				if c.Rank() == 0 {
					want[4] = []int32{-1, -1}
				}
				if got := [][]int32{{one}, whole, parts, upTo, before}; fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("%v of %d ranks: %v, want %v", op, size, got, want)
				}
			}
			return nil
		})
	}
}

// TestOperationsOfElements: an operation that elements do not have is an error that names both.
func TestOperationsOfElements(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		ctx := t.Context()
		refused := func(err error, words string) error {
			if errors.Is(err, ErrArgument) && strings.Contains(err.Error(), words) {
				return nil
			}
			return fmt.Errorf("%v, want %q", err, words)
		}
		z, b, f := []complex64{1}, []bool{true}, []float32{1}
		return errors.Join(
			refused(AllReduce(ctx, c, z, z, Max), "there is no max of elements of complex64"),
			refused(AllReduce(ctx, c, z, z, LogicalOr), "operation lor is for integers and bools, not for complex64"),
			refused(AllReduce(ctx, c, b, b, Sum), "there is no sum of elements of bool"),
			refused(AllReducePreMul(ctx, c, b, b, true), "there is no sum of elements of bool"),
			refused(Scan(ctx, c, f, f, LogicalXor), "operation lxor is for integers and bools, not for float32"))
	})
}
