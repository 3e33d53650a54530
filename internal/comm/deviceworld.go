package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// inner is the World of a communicator's own ranks. Its AllGather is a call of the
// communicator, which is claimed: a rank that makes another call is found out, and
// nothing new needs to be trusted. What several communicators open at the same time
// does not meet.
type inner struct {
	*group
	device bool // what is opened is the devices
}

// newInner returns the inner World of c for opening what is named.
func newInner(c *Comm, what string) *inner {
	g := &group{Parent: c, rank: c.Rank, id: c.World.JobID() + "-" + what}
	for r := range c.Size {
		g.members = append(g.members, r)
	}
	return &inner{g, what == openDevices}
}

// What an inner World can be for.
const (
	openDevices  = "devices"
	openExchange = "aside"
)

// AllGather exchanges blobs: first their lengths.
func (w *inner) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	c := w.Parent
	mine, all := make([]byte, lengthBytes), make([]byte, lengthBytes*c.Size)
	putLength(mine, len(blob))
	if err := c.heldGather(ctx, w.openingArgs(c, mine, all), &c.waiter); err != nil {
		return nil, err
	}
	lengths, err := readLengths(all, c.Size)
	if err != nil {
		return nil, err
	}
	most := max(1, slices.Max(lengths))
	mine, all = make([]byte, most), make([]byte, most*c.Size)
	copy(mine, blob)
	if err := c.heldGather(ctx, w.openingArgs(c, mine, all), &c.waiter); err != nil {
		return nil, err
	}
	out := make([][]byte, c.Size)
	for r, n := range lengths {
		out[r] = all[r*most:][:n:n]
	}
	return out, nil
}

// openingArgs is an AllGather that is part of opening something, as its header says.
func (w *inner) openingArgs(c *Comm, mine, all []byte) *Args {
	return (&Args{exchange: true, device: w.device}).gathers(c, kernel.Uint8, mine, all)
}

const lengthBytes = 8

func putLength(b []byte, n int) {
	for i := range lengthBytes {
		b[i] = byte(n >> (8 * i))
	}
}

// readLengths returns how long the ranks' blobs are, each within bounds.
func readLengths(b []byte, ranks int) ([]int, error) {
	if len(b) != lengthBytes*ranks {
		return nil, fmt.Errorf("%d bytes of lengths for %d ranks", len(b), ranks)
	}
	lengths := make([]int, ranks)
	for r := range lengths {
		n := uint64(0)
		for i := range lengthBytes {
			n |= uint64(b[r*lengthBytes+i]) << (8 * i)
		}
		if n > uint64(maxBlob/ranks) {
			return nil, fmt.Errorf("rank %d announces a blob of %d bytes", r, n)
		}
		lengths[r] = int(n)
	}
	return lengths, nil
}

// told is what a rank tells the others at a step of opening the devices, and why
// it could not take the step.
type told[T any] struct {
	Fault string
	Value T
}

// swap tells all ranks what this one has made of a step, failed if it could not,
// and returns what all have. Where any failed there is an error on all of them,
// which names the first.
func swap[T any](ctx context.Context, w World, mine T, failed error) ([]T, error) {
	t := told[T]{Value: mine}
	if failed != nil {
		t.Fault = failed.Error()
	}
	all, err := exchange(ctx, w, t)
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	values := make([]T, len(all))
	for r, t := range all {
		if t.Fault != "" {
			e := &deviceError{text: t.Fault}
			if r == w.Rank() {
				e.cause = failed
			}
			return nil, &RankError{Rank: r, Op: "opening the devices", Err: e}
		}
		values[r] = t.Value
	}
	return values, nil
}

// deviceError is what a device did not do. On the rank whose device it is it wraps
// the error of package cuda.
type deviceError struct {
	text  string
	cause error // nil on other ranks
}

func (e *deviceError) Error() string { return e.text }

func (e *deviceError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrDevice}
	}
	return []error{ErrDevice, e.cause}
}

// sharing returns the ranks that share memory with this one, rising, itself among
// them: those of its host, unless containers keep them apart.
func sharing(ep transport.Endpoint, rank, size int) []int {
	n, is := ep.(transport.SharedHeap)
	if !is {
		return []int{rank}
	}
	var all []int
	for r := range size {
		if _, err := n.View(r, 0, 0); err == nil {
			all = append(all, r)
		}
	}
	return all
}
