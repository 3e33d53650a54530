package comm

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
)

// inner is the World of a communicator's own ranks. Its AllGather is a call of the
// communicator, which is claimed: a rank that makes another call is found out, and
// nothing new needs to be trusted. What several communicators open at the same time
// does not meet.
type inner struct {
	*group
	flags uint8 // engine.OnDevice: what is opened is the devices
}

// newInner returns the inner World of c for opening what is named.
func newInner(c *Comm, what string) *inner {
	g := &group{Parent: c, rank: c.Rank, id: c.World.JobID() + "-" + what}
	for r := range c.Size {
		g.members, g.hosts = append(g.members, r), append(g.hosts, c.World.HostOf(r))
	}
	w := &inner{group: g}
	if what == openDevices {
		w.flags = engine.OnDevice
	}
	return w
}

// What an inner World can be for.
const (
	openDevices  = "devices"
	openExchange = "exchange"
)

// AllGather exchanges blobs.
func (w *inner) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	c := w.Parent
	return gatherBlobs(blob, c.Size, func(mine, all []byte) error {
		return c.heldGather(ctx, (&Args{as: engine.Exchange, flags: w.flags}).gathers(c, kernel.Uint8, mine, all), &c.Waiter)
	})
}

// gatherBlobs gives every rank the blobs of all, by two gathers of parts of one length: of the blobs' lengths, and of
// the blobs.
func gatherBlobs(blob []byte, ranks int, gather func(mine, all []byte) error) ([][]byte, error) {
	mine, all := binary.LittleEndian.AppendUint64(nil, uint64(len(blob))), make([]byte, 8*ranks)
	if err := gather(mine, all); err != nil {
		return nil, err
	}
	lengths, err := readLengths(all, ranks)
	if err != nil {
		return nil, err
	}
	most := max(1, slices.Max(lengths))
	mine, all = make([]byte, most), make([]byte, most*ranks)
	copy(mine, blob)
	if err := gather(mine, all); err != nil {
		return nil, err
	}
	out := make([][]byte, ranks)
	for r, n := range lengths {
		out[r] = all[r*most:][:n:n]
	}
	return out, nil
}

// maxBlob bounds what ranks tell each other when a communicator is made, or anything is opened.
const maxBlob = 64 << 20

// readLengths returns how long the ranks' blobs are, each within bounds.
func readLengths(b []byte, ranks int) ([]int, error) {
	if len(b) != 8*ranks {
		return nil, fmt.Errorf("%d bytes of lengths for %d ranks", len(b), ranks)
	}
	lengths := make([]int, ranks)
	for r := range lengths {
		n := binary.LittleEndian.Uint64(b[8*r:])
		if n > uint64(maxBlob/ranks) {
			return nil, fmt.Errorf("rank %d announces a blob of %d bytes", r, n)
		}
		lengths[r] = int(n)
	}
	return lengths, nil
}
