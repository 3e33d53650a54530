package collective

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/plan"
	calls "github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/strict"
)

// maxObjects is the maximum total size, in bytes, of the encoded objects of a call on all ranks. Tests have less.
var maxObjects = 1 << 30

// AllReduceValue combines v of all ranks with op and returns the result on every rank. It is an AllReduce of one
// element.
func AllReduceValue[T Element](ctx context.Context, c *Comm, v T, op Op) (T, error) {
	x := []T{v}
	a := reduceArgs(new(comm.Args), c, plan.AllReduce, -1, x, x, op)
	err := c.inner().Run(ctx, a.As(calls.OfValue))
	return x[0], err
}

// ReduceValue is AllReduceValue with the result on rank root only. The other ranks get their own v.
func ReduceValue[T Element](ctx context.Context, c *Comm, v T, op Op, root int) (T, error) {
	send, recv := []T{v}, []T{v}
	a := reduceArgs(new(comm.Args), c, plan.Reduce, root, send, recv, op)
	err := c.inner().Run(ctx, a.As(calls.OfValue))
	return recv[0], err
}

// AllReduceValueFunc combines v of all ranks with f, and returns the result on every rank. a is of lower ranks than b.
// For f and T see AllReduceFunc.
func AllReduceValueFunc[T any](ctx context.Context, c *Comm, v T, f func(a, b T) T) (T, error) {
	x := []T{v}
	all := func(into, from []T) {
		for i, b := range from {
			into[i] = f(into[i], b)
		}
	}
	if f == nil {
		all = nil // which is refused
	}
	a := funcArgs(new(comm.Args), c, plan.AllReduce, x, x, all, -1)
	err := c.inner().Run(ctx, a.As(calls.OfValue))
	return x[0], err
}

// encodedByte is the element type of messages with objects: no Recv of bytes takes them by mistake.
type encodedByte [1]byte

// SendObject sends v to rank to with a tag, as Send does, for a RecvObject. For the types T that are possible see
// BroadcastObject. An object that cannot be encoded is an ErrArgument, and nothing is sent.
func SendObject[T any](ctx context.Context, c *Comm, v T, to, tag int) error {
	data, _, err := encoded(v, 1)
	if err != nil {
		return fmt.Errorf("%w: %w", c.inner().ArgumentError("SendObject", "it cannot be encoded, or is too large"), err)
	}
	_, err = c.inner().Messages.Run(ctx, "SendObject", messageOf(new(p2p.Message), encodedOf(data), to, tag), tag, true)
	return err
}

// RecvObject receives an object of a SendObject from rank from, or AnySource, with a tag, or AnyTag. The Count of its
// Status is the length of its encoding, in bytes. A message of another call is an ErrMismatch on all ranks. Where this
// rank cannot decode the object it alone returns an error, and the communicator is unchanged.
func RecvObject[T any](ctx context.Context, c *Comm, from, tag int) (v T, st Status, err error) {
	data, st, err := recvNew[encodedByte](ctx, c, "RecvObject", from, tag)
	if err != nil || st.Source == NoRank {
		return v, st, err
	}
	return v, st, decode("RecvObject", c.inner().Rank, st.Source, kernel.BytesOf(data), &v)
}

// ScatterObject returns element i of values of rank root on rank i. values has one element for every rank; it is used
// on root only. For the types T that are possible see BroadcastObject. If root cannot encode an object, or the objects
// have more than 1 GiB together, or root has another number of them, all ranks return ErrArgument.
func ScatterObject[T any](ctx context.Context, c *Comm, values []T, root int) (v T, err error) {
	const name = "ScatterObject"
	in := c.inner()
	var all []byte
	var failed error
	lengths := make([]int64, in.Size) // in bytes; for all -1 if root cannot encode them, -2 if it has another number
	counts := make([]int, in.Size)
	refusal := int64(-1)
	if in.Rank == root && len(values) != in.Size {
		failed, refusal = fmt.Errorf("%d objects for %d ranks", len(values), in.Size), -2
	}
	for r := 0; in.Rank == root && failed == nil && r < in.Size; r++ {
		var data []byte
		if data, lengths[r], failed = encoded(values[r], 1); failed == nil {
			all, counts[r] = append(all, data...), len(data)
		}
		if failed == nil && len(all) > maxObjects {
			failed = fmt.Errorf("objects 0 to %d have %d bytes, and all may have %d together", r, len(all), maxObjects)
		}
	}
	if failed != nil {
		lengths = slices.Repeat([]int64{refusal}, in.Size)
	}
	length := []int64{0}
	if err := runObject(ctx, c, argsOf(new(comm.Args), c, plan.Scatter, root, lengths, length)); err != nil {
		return v, err
	}
	switch length[0] {
	case -2:
		return v, in.ArgumentError(name, "%w", cmp.Or(failed,
			fmt.Errorf("root %d has not one object for each of the %d ranks", root, in.Size)))
	case -1:
		return v, notEncoded(c, name, root, failed)
	}
	mine := make([]byte, length[0])
	a := new(comm.Args).VaryAt(in, plan.Scatter, root, counts, 1)
	if err := runObject(ctx, c, argsOf(a, c, plan.Scatter, root, all, mine)); err != nil {
		return v, err
	}
	return v, decode(name, in.Rank, root, mine, &v)
}

// BroadcastObject returns v of rank root on every rank. v is sent as MessagePack, so T can be any type that package
// github.com/vmihailenco/msgpack encodes, by exported fields or by methods of its own; a []byte is sent as it is. v of
// the other ranks is ignored.
//
// If root cannot encode the object, or it has more than 1 GiB, all ranks return ErrArgument. If a rank cannot decode
// it, that rank alone returns an error; the communicator is unchanged. The same holds if a codec panics.
func BroadcastObject[T any](ctx context.Context, c *Comm, v T, root int) (T, error) {
	const name = "BroadcastObject"
	var mine []byte
	var failed error
	length := []int64{0}
	if c.inner().Rank == root {
		mine, length[0], failed = encoded(v, 1)
	}
	if err := runObject(ctx, c, argsOf(new(comm.Args), c, plan.Broadcast, root, length, length)); err != nil {
		return v, err
	}
	if length[0] < 0 {
		return v, notEncoded(c, name, root, failed)
	}
	if c.inner().Rank != root {
		mine = make([]byte, length[0])
	}
	err := runObject(ctx, c, argsOf(new(comm.Args), c, plan.Broadcast, root, mine, mine))
	if err != nil || c.inner().Rank == root {
		return v, err
	}
	var got T
	return got, decode(name, c.inner().Rank, root, mine, &got)
}

// AllGatherObject returns v of all ranks, by rank, on every rank. For the types T that are possible see
// BroadcastObject. Each object may have 1 GiB divided by the number of ranks: a larger one is an ErrArgument on all
// ranks.
func AllGatherObject[T any](ctx context.Context, c *Comm, v T) ([]T, error) {
	return gatherObjects(ctx, c, calls.AllGatherObject, v, -1)
}

// GatherObject returns v of all ranks, by rank, on rank root, and nil on the other ranks. See AllGatherObject.
func GatherObject[T any](ctx context.Context, c *Comm, v T, root int) ([]T, error) {
	return gatherObjects(ctx, c, calls.GatherObject, v, root)
}

// gatherObjects sends v of all ranks to root in a GatherObject, and to all ranks in calls of another kind.
func gatherObjects[T any](ctx context.Context, c *Comm, kind calls.Kind, v T, root int) ([]T, error) {
	name := kind.String()
	toAll := kind != calls.GatherObject
	if !toAll && (root < 0 || root >= c.inner().Size) {
		return nil, c.inner().ArgumentError(name, "%s", comm.NoRoot(root, c.inner().Size))
	}
	mine, length, failed := encoded(v, c.inner().Size)
	lengths := make([]int64, c.inner().Size)
	if err := gatherAs(ctx, c, kind, kernel.BytesOf([]int64{length}), kernel.BytesOf(lengths)); err != nil {
		return nil, err
	}
	longest := int64(0)
	for r, n := range lengths {
		if n < 0 {
			return nil, notEncoded(c, name, r, failed)
		}
		longest = max(longest, n)
	}
	padded, all := make([]byte, longest), []byte(nil)
	copy(padded, mine)
	var err error
	if toAll || root == c.inner().Rank {
		all = make([]byte, int(longest)*c.inner().Size)
	}
	if toAll {
		err = gatherAs(ctx, c, kind, padded, all)
	} else {
		err = runObject(ctx, c, argsOf(new(comm.Args), c, plan.Gather, root, padded, all))
	}
	if err != nil || all == nil {
		return nil, err
	}
	objects := make([]T, c.inner().Size)
	for r, n := range lengths {
		if err := decode(name, c.inner().Rank, r, all[longest*int64(r):][:n], &objects[r]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// runObject makes a call that is part of one with objects.
func runObject(ctx context.Context, c *Comm, a *comm.Args) error {
	return c.inner().Run(ctx, a.As(calls.OfObject))
}

// gatherAs is an AllGather of bytes, which is part of a call of a kind.
func gatherAs(ctx context.Context, c *Comm, kind calls.Kind, mine, all []byte) error {
	a := comm.NewArgs(calls.ID{Kind: kind})
	return c.inner().Run(ctx, a.SetGather(c.inner(), kernel.Uint8, mine, all))
}

// encoded returns the encoding of v, one of the given number of objects of a call, and its length, or -1 if v cannot be
// encoded.
func encoded(v any, objects int) (data []byte, length int64, err error) {
	err = caught(func() error {
		data, err = msgpack.Marshal(v)
		return err
	})
	if err == nil && len(data) > maxObjects/objects {
		err = fmt.Errorf("%d bytes, and each object of the call may have %d", len(data), maxObjects/objects)
	}
	if err != nil {
		return nil, -1, fmt.Errorf("a %T: %w", v, err)
	}
	return data, int64(len(data)), nil
}

// notEncoded returns the error of all ranks for an object of rank r; only rank r knows the reason, why.
func notEncoded(c *Comm, name string, r int, why error) error {
	err := c.inner().ArgumentError(name, "rank %d cannot encode its object, or it is too large", r)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// decode decodes the object of rank r into v, a pointer.
func decode(call string, rank, r int, data []byte, v any) error {
	if err := caught(func() error { return strict.Unmarshal(data, v) }); err != nil {
		return fmt.Errorf("collective: %s on rank %d: decoding the object of rank %d for a %T: %w", call, rank, r, v, err)
	}
	return nil
}

// caught calls codec, which may run methods of the caller, and returns its error, or its panic as an error.
func caught(codec func() error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	return codec()
}
