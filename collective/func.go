package collective

import (
	"context"
	"hash/fnv"
	"reflect"
	"slices"

	"github.com/treerun/treerun/internal/comm"
	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// AllReduceFunc is AllReduce with an operation of the caller's: f makes into[i] what into[i] and from[i] give together,
// for all i. into is of ranks below those of from, so that f must be associative, and need not be commutative. T is any
// type without pointers, slices, maps, strings and the like, as numbers, arrays and structs of them are. The slices
// that f gets are only valid during its call; f makes no calls on c. All ranks give the same function, which cannot be
// checked.
//
// The elements go up a binomial tree of neighbours and then to all ranks, after the ranks have compared what they call:
// for Sum and its like AllReduce is quicker.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func AllReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	o, err := beginFunc(ctx, c, 0, send, recv, -1, f)
	if err != nil {
		return err
	}
	defer o.End()
	all := kernel.BytesOf(recv)
	copy(recv, send)
	if err := o.Reduce(ctx, all); err != nil {
		return err
	}
	return o.Broadcast(ctx, all)
}

// ReduceFunc is AllReduceFunc that gives the result to rank root in recv, which is used on root only.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T), root int) error {
	acc := slices.Clone(send)
	if c.inner().Rank != root {
		recv = acc
	}
	if root < 0 {
		return c.inner().ArgumentError("ReduceFunc", "root %d of %d ranks", root, c.inner().Size)
	}
	o, err := beginFunc(ctx, c, 1, send, recv, root, f)
	if err != nil {
		return err
	}
	defer o.End()
	if err := o.Reduce(ctx, kernel.BytesOf(acc)); err != nil {
		return err
	}
	err = o.Hand(ctx, kernel.BytesOf(acc), root)
	copy(recv, acc)
	return err
}

// Scan gives every rank, in recv, send of all ranks up to this one, combined with op, which is none of Avg.
// send and recv have the same length on all ranks; they may be the same slice.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func Scan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return scan(ctx, c, 2, send, recv, op)
}

// ExScan is Scan without this rank's own part: recv of rank 0 stays as it was.
func ExScan[T Number](ctx context.Context, c *Comm, send, recv []T, op Op) error {
	return scan(ctx, c, 3, send, recv, op)
}

func scan[T Number](ctx context.Context, c *Comm, which int, send, recv []T, op Op) error {
	const exclusive = 3
	t := dtypeOf[T]()
	if k := kernel.Op(op); !k.Valid() || !k.Takes(t) || op == Avg {
		return c.inner().ArgumentError(engine.CallsInOrder[which], "no operation %v of %v", op, t)
	}
	if err := apart(c, which, kernel.BytesOf(send), kernel.BytesOf(recv)); err != nil {
		return err
	}
	o, err := c.inner().BeginInOrder(ctx, which, len(send), len(recv), t.Size(), -1, uint64(op)<<8|uint64(t),
		func(into, from []byte) { kernel.Reduce(kernel.Op(op), t, into, into, from) })
	if err != nil {
		return err
	}
	return scanned(ctx, c, o, send, recv, which == exclusive)
}

// scanned is Scan or ExScan of a call that has begun.
func scanned[T any](ctx context.Context, c *Comm, o *comm.InOrder, send, recv []T, exclusive bool) error {
	defer o.End()
	acc := slices.Clone(send)
	if err := o.Scan(ctx, kernel.BytesOf(acc), exclusive); err != nil {
		return err
	}
	if !exclusive || c.inner().Rank > 0 {
		copy(recv, acc)
	}
	return nil
}

// ScanFunc is Scan with an operation of the caller's: see AllReduceFunc.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	o, err := beginFunc(ctx, c, 4, send, recv, -1, f)
	if err != nil {
		return err
	}
	return scanned(ctx, c, o, send, recv, false)
}

// ExScanFunc is ScanFunc without this rank's own part: recv of rank 0 stays as it was.
func ExScanFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	o, err := beginFunc(ctx, c, 5, send, recv, -1, f)
	if err != nil {
		return err
	}
	return scanned(ctx, c, o, send, recv, true)
}

// ReduceScatterFunc is ReduceScatter with an operation of the caller's: see AllReduceFunc. The elements go to rank 0,
// and each rank's part of the result from there.
// After an error the contents of recv are undefined, and of send where it shares memory with recv.
func ReduceScatterFunc[T any](ctx context.Context, c *Comm, send, recv []T, f func(into, from []T)) error {
	const name = "ReduceScatterFunc"
	n := len(recv)
	if len(send) != n*c.inner().Size {
		return c.inner().ArgumentError(name, "send has %d elements, want %d parts of %d", len(send), c.inner().Size, n)
	}
	part, own := kernel.BytesOf(recv), kernel.BytesOf(send[c.inner().Rank*n:][:n])
	if kernel.OverlapOf(part, kernel.BytesOf(send)) != kernel.Apart && kernel.OverlapOf(part, own) != kernel.InPlace {
		return c.inner().ArgumentError(name, "send and recv overlap; in place, recv is part %d of send", c.inner().Rank)
	}
	acc := slices.Clone(send)
	o, err := beginFunc(ctx, c, 6, send, acc, -1, f)
	if err != nil {
		return err
	}
	defer o.End()
	if err := o.Reduce(ctx, kernel.BytesOf(acc)); err != nil {
		return err
	}
	return o.Scatter(ctx, kernel.BytesOf(acc), part)
}

// AllReduceMinLoc gives every rank the least v of all ranks and the rank whose it is: the lowest of those that have it.
// A NaN is less than all else, and comes back as that of Min; -0 is less than +0.
//
// For the place within a slice as well, or for many numbers at once, see the example of AllReduceFunc.
func AllReduceMinLoc[T Number](ctx context.Context, c *Comm, v T) (least T, rank int, err error) {
	return extreme(ctx, c, 7, v, kernel.Min)
}

// AllReduceMaxLoc is AllReduceMinLoc for the greatest v. A NaN is greater than all else.
func AllReduceMaxLoc[T Number](ctx context.Context, c *Comm, v T) (greatest T, rank int, err error) {
	return extreme(ctx, c, 8, v, kernel.Max)
}

func extreme[T Number](ctx context.Context, c *Comm, which int, v T, op kernel.Op) (T, int, error) {
	all, t, rank := make([]T, c.inner().Size), dtypeOf[T](), 0
	if err := c.inner().GatherInOrder(ctx, which, t, kernel.BytesOf([]T{v}), kernel.BytesOf(all)); err != nil {
		return v, -1, err
	}
	best := kernel.BytesOf(all[:1])
	kernel.Reduce(op, t, best, best, best) // a NaN is one of many, the result always the same
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
func apart(c *Comm, which int, send, recv []byte) error {
	if kernel.OverlapOf(send, recv) == kernel.Partial {
		return c.inner().ArgumentError(engine.CallsInOrder[which],
			"send and recv overlap in part; use the same slice or two separate ones")
	}
	return nil
}

// beginFunc begins a call with a function of the caller's.
func beginFunc[T any](ctx context.Context, c *Comm, which int, send, recv []T, root int,
	f func(into, from []T)) (*comm.InOrder, error) {
	of := reflect.TypeFor[T]()
	if f == nil || of.Size() == 0 || !plain(of) {
		return nil, c.inner().ArgumentError(engine.CallsInOrder[which],
			"no function, or elements with pointers or without a size: %v", of)
	}
	if err := apart(c, which, kernel.BytesOf(send), kernel.BytesOf(recv)); err != nil {
		return nil, err
	}
	h := fnv.New64a()
	h.Write([]byte(of.String()))
	return c.inner().BeginInOrder(ctx, which, len(send), len(recv), int(of.Size()), root, h.Sum64(),
		func(into, from []byte) { f(elementsOf[T](into), elementsOf[T](from)) })
}

// plain reports whether a value of t means the same in another process.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		return !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return !plain(f.Type) })
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 && t.Kind() != reflect.Uintptr
}
