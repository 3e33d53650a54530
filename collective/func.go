package collective

import (
	"context"
	"hash/fnv"
	"reflect"
	"slices"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AllReduceFunc is AllReduce with an operation of the caller: f combines into[i] and from[i] and stores the result in
// into[i], for all i. into holds values of lower ranks than from, so f must be associative, and need not be
// commutative. T is any type without pointers, slices, maps, strings and the like, such as numbers, and arrays and
// structs of them. The slices that f gets are valid only during its call. f may run in any goroutine of this rank that
// is in a call of this package, and must not make such calls itself. All ranks pass the same function, which cannot be
// checked.
//
// The elements go up a binomial tree of neighbors and then to all ranks, after the ranks have compared their calls: for
// Sum and the other operations of this package AllReduce is faster. After an error the contents of recv are undefined,
// and of send where it shares memory with recv.
func AllReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, allReduceFunc(c, send, recv, f))
}

func allReduceFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) *comm.Args {
	return funcArgs(comm.InOrder(calls.AllReduceFunc), c, send, recv, -1, f, func(o *comm.Rounds) {
		copy(recv, send)
		o.Reduce(kernel.BytesOf(recv))
		o.Broadcast(kernel.BytesOf(recv))
	})
}

// ReduceFunc is AllReduceFunc with the result in recv of rank root; recv is used on root only. After an error the
// contents of recv are undefined, and of send where it shares memory with recv.
func ReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T), root int) error {
	return c.inner().Run(ctx, reduceFunc(c, send, recv, f, root))
}

func reduceFunc[T any](c *Comm, send, recv []T, f func(into, from []T), root int) *comm.Args {
	if c.Rank() != root {
		recv = send
	}
	return funcArgs(comm.InOrder(calls.ReduceFunc), c, send, recv, root, f, func(o *comm.Rounds) {
		acc := slices.Clone(send)
		o.Reduce(kernel.BytesOf(acc))
		o.Hand(kernel.BytesOf(acc), root)
		if c.Rank() == root {
			o.Add(func() { copy(recv, acc) })
		}
	})
}

// Scan combines send of all ranks up to this one with op, which must not be Avg, and stores the result in recv. send
// and recv have the same length on all ranks; they may be the same slice. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func Scan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.Scan, -1, send, recv, op))
}

// ExScan is Scan without this rank's own part: recv of rank 0 stays as it was.
func ExScan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.ExScan, -1, send, recv, op))
}

// scans makes the rounds of a ScanFunc or ExScanFunc.
func scans[T any](c *Comm, send, recv []T, exclusive bool) func(o *comm.Rounds) {
	return func(o *comm.Rounds) {
		acc := slices.Clone(send)
		o.Scan(kernel.BytesOf(acc), exclusive)
		if !exclusive || c.Rank() > 0 {
			o.Add(func() { copy(recv, acc) })
		}
	}
}

// ScanFunc is Scan with an operation of the caller: see AllReduceFunc. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func ScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, scanFunc(c, send, recv, f))
}

func scanFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) *comm.Args {
	return funcArgs(comm.InOrder(calls.ScanFunc), c, send, recv, -1, f, scans(c, send, recv, false))
}

// ExScanFunc is ScanFunc without this rank's own part: recv of rank 0 stays as it was.
func ExScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, exScanFunc(c, send, recv, f))
}

func exScanFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) *comm.Args {
	return funcArgs(comm.InOrder(calls.ExScanFunc), c, send, recv, -1, f, scans(c, send, recv, true))
}

// ReduceScatterFunc is ReduceScatter with an operation of the caller: see AllReduceFunc. The elements go to rank 0, and
// each rank's part of the result from there. After an error the contents of recv are undefined, and of send where it
// shares memory with recv.
func ReduceScatterFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, reduceScatterFunc(c, send, recv, f))
}

func reduceScatterFunc[T any](c *Comm, send, recv []T, f func(into, from []T)) *comm.Args {
	a, in, n := comm.InOrder(calls.ReduceScatterFunc), c.inner(), len(recv)
	if len(send) != n*in.Size {
		a.Refuse(in, "send has %d elements, want %d parts of %d", len(send), in.Size, n)
		return a
	}
	part, own := kernel.BytesOf(recv), kernel.BytesOf(send[in.Rank*n:][:n])
	if kernel.OverlapOf(part, kernel.BytesOf(send)) != kernel.Apart && kernel.OverlapOf(part, own) != kernel.InPlace {
		a.Refuse(in, "send and recv overlap; in place, recv is part %d of send", in.Rank)
	}
	return funcArgs(a, c, send, send, -1, f, func(o *comm.Rounds) {
		acc := slices.Clone(send)
		o.Reduce(kernel.BytesOf(acc))
		o.Scatter(kernel.BytesOf(acc), part)
	})
}

// AllReduceMinLoc returns, on every rank, the minimum of v over all ranks and the lowest rank that has it. A NaN is
// less than all other values, and the result is then the NaN of Min; -0 is less than +0.
//
// For the position within a slice as well, or for many numbers at once, see the example of AllReduceFunc.
func AllReduceMinLoc[T Number](ctx context.Context, c *Comm, v T) (least T, rank int, err error) {
	return extreme(ctx, c, calls.AllReduceMinLoc, v, kernel.Min)
}

// AllReduceMaxLoc is AllReduceMinLoc for the maximum of v. A NaN is greater than all other values.
func AllReduceMaxLoc[T Number](ctx context.Context, c *Comm, v T) (greatest T, rank int, err error) {
	return extreme(ctx, c, calls.AllReduceMaxLoc, v, kernel.Max)
}

func extreme[T Number](ctx context.Context, c *Comm, k calls.Kind, v T, op kernel.Op) (T, int, error) {
	all, t, rank := make([]T, c.inner().Size), dtypeOf[T](), 0
	a := comm.InOrder(k)
	if err := c.inner().Run(ctx, a.SetGather(c.inner(), t, kernel.BytesOf([]T{v}), kernel.BytesOf(all))); err != nil {
		return v, -1, err
	}
	best := kernel.BytesOf(all[:1])
	kernel.Reduce(op, t, best, best, best) // any NaN becomes the same NaN
	for r := range all {
		before := elementOf(all[0])
		kernel.Reduce(op, t, best, best, kernel.BytesOf(all[r:r+1]))
		if elementOf(all[0]) != before {
			rank = r
		}
	}
	return all[0], rank, nil
}

// apart refuses slices that overlap in part.
func apart(a *comm.Args, c *Comm, send, recv []byte) {
	if a.Err == nil && kernel.OverlapOf(send, recv) == kernel.Partial {
		a.Refuse(c.inner(), "send and recv overlap in part; use the same slice or two separate ones")
	}
}

// funcArgs sets, and checks, a call with a function of the caller.
func funcArgs[T any](a *comm.Args, c *Comm, send, recv []T, root int, f func(into, from []T),
	follow func(o *comm.Rounds)) *comm.Args {
	of := reflect.TypeFor[T]()
	if a.Err == nil && (f == nil || of.Size() == 0 || !plain(of)) {
		a.Refuse(c.inner(), "no function, or elements with pointers or without a size: %v", of)
	}
	apart(a, c, kernel.BytesOf(send), kernel.BytesOf(recv))
	h := fnv.New64a()
	h.Write([]byte(of.String()))
	return a.SetInOrder(c.inner(), len(send), len(recv), int(of.Size()), root, h.Sum64(),
		func(into, from []byte) { f(elementsOf[T](into), elementsOf[T](from)) }, follow)
}

// plain reports whether a value of t has the same meaning in another process.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		return !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return !plain(f.Type) })
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 && t.Kind() != reflect.Uintptr
}
