package collective

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// AllReduceFunc is AllReduce with an operation of the caller: f combines into[i] and from[i] and stores the result in
// into[i], for all i. into holds values of lower ranks than from, so f must be associative, and need not be
// commutative. T is any type without pointers, slices, maps, strings and the like, such as numbers, and arrays and
// structs of them, whose size is not 0. The slices that f gets are valid only during its call. f may run in any
// goroutine of this rank that is in a call of this package, and must not make such calls itself. All ranks pass the
// same function, which cannot be checked.
//
// f is called for parts of the slices, on several ranks and in any order of the parts. Elements that are larger than a
// slot of a link (see WithSlots) go to all ranks, each of which combines them by itself. After an error the contents of
// recv are undefined, and of send where it shares memory with recv.
//
// If f panics, the call returns an ErrAborted on all ranks, with the words and the place of the panic.
func AllReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, funcArgs(new(comm.Args), c, plan.AllReduce, send, recv, f, -1))
}

// ReduceFunc is AllReduceFunc with the result in recv of rank root; recv is used on root only. After an error the
// contents of recv are undefined, and of send where it shares memory with recv.
func ReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T), root int) error {
	return c.inner().Run(ctx, funcArgs(new(comm.Args), c, plan.Reduce, send, recv, f, root))
}

// Scan combines send of all ranks up to this one with op, which must not be Avg, and stores the result in recv. send
// and recv have the same length on all ranks; they may be the same slice. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func Scan[T Element](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.Scan, -1, send, recv, op))
}

// ExScan is Scan without this rank's own part: recv of rank 0 stays as it was.
func ExScan[T Element](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return c.inner().Run(ctx, reduceArgs(new(comm.Args), c, plan.ExScan, -1, send, recv, op))
}

// ScanFunc is Scan with an operation of the caller: see AllReduceFunc. After an error the contents of recv are
// undefined, and of send where it shares memory with recv.
func ScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, funcArgs(new(comm.Args), c, plan.Scan, send, recv, f, -1))
}

// ExScanFunc is ScanFunc without this rank's own part: recv of rank 0 stays as it was.
func ExScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, funcArgs(new(comm.Args), c, plan.ExScan, send, recv, f, -1))
}

// ReduceScatterFunc is ReduceScatter with an operation of the caller: see AllReduceFunc. After an error the contents of
// recv are undefined, and of send where it shares memory with recv.
func ReduceScatterFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	return c.inner().Run(ctx, funcArgs(new(comm.Args), c, plan.ReduceScatter, send, recv, f, -1))
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
	a := comm.NewArgs(calls.ID{Kind: k})
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

// combiner is a function of the caller as a kernel.Func.
type combiner[T any] func(into, from []T)

func (f combiner[T]) Combine(into, from []byte) { f(elementsOf[T](into), elementsOf[T](from)) }

// funcArgs sets a to a call with a function of the caller, and checks it.
func funcArgs[T any](a *comm.Args, c *Comm, kind plan.Kind, send, recv []T, f func(into, from []T),
	root int) *comm.Args {
	in := c.inner()
	a.ID.Kind, a.ID.Func, a.ID.DType = calls.Kind(kind), true, dtypeOf[T]()
	a.In, a.Out, a.Elem = kernel.BytesOf(send), kernel.BytesOf(recv), int(reflect.TypeFor[T]().Size())
	a.Func = combiner[T](f)
	if f == nil {
		a.Refuse(in, "the function is nil")
	} else if a.ID.DType == 0 {
		a.Refuse(in, "%s", unmovable[T]())
	} else if in.Size > 1 && in.Plans.Messages < 0 {
		a.Refuse(in, "it is for %s", in.Plans.NoMessages())
	}
	a.SetHost(in, kind, root, 0, len(send), len(recv))
	if a.Err != nil || in.Size == 1 || a.Elem <= in.Endpoint.MaxPayload() {
		return a
	}
	all := make([]T, len(send)*in.Size)
	gather := comm.NewArgs(a.ID).SetGather(in, kernel.Uint8, kernel.BytesOf(send), kernel.BytesOf(all))
	gather.ID.Root = int32(root)
	return gather.Continue(len(a.In), func() { foldAll(in, kind, all, recv, f, root) })
}

// foldAll combines the inputs of the ranks, which are in all, to what this rank gets.
func foldAll[T any](in *comm.Comm, kind plan.Kind, all, recv []T, f func(into, from []T), root int) {
	n, ranks := len(all)/in.Size, in.Size
	switch {
	case kind == plan.Scan:
		ranks = in.Rank + 1
	case kind == plan.ExScan:
		ranks = in.Rank
	case kind == plan.Reduce && in.Rank != root:
		ranks = 0
	}
	if n == 0 || ranks == 0 {
		return
	}
	for r := 1; r < ranks; r++ {
		f(all[:n], all[r*n:][:n])
	}
	if kind == plan.ReduceScatter {
		all = all[in.Rank*len(recv):]
	}
	copy(recv, all[:len(recv)])
}

// digests are the results of digestOf.
var digests sync.Map

// digestOf returns a digest of a type whose values have the same meaning in another process, above kernel.Opaque, 0 for
// others, and where they have no size.
func digestOf(t reflect.Type) kernel.DType {
	if d, known := digests.Load(t); known {
		return d.(kernel.DType)
	}
	var d kernel.DType
	if t.Size() > 0 && plain(t) {
		h := fnv.New32a()
		describe(h, t)
		d = kernel.Opaque + 1 + kernel.DType(h.Sum32()%uint32(kernel.DTypeEnd-kernel.Opaque-1))
		d.SetName(fmt.Sprintf("%.60s", t))
	}
	digests.Store(t, d)
	return d
}

// describe writes to h what distinguishes t from other types: also the fields of a struct, whose name may be that of
// another one, in a program of another version.
func describe(h io.Writer, t reflect.Type) {
	fmt.Fprintf(h, "%v %d;", t, t.Size())
	switch t.Kind() {
	case reflect.Array:
		describe(h, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(h, "%s %d ", f.Name, f.Offset)
			describe(h, f.Type)
		}
	}
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
