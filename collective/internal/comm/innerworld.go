package comm

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/numbers"
)

// inner is the World of a communicator's own ranks. Its AllGather is a call of the communicator, which is claimed: a
// rank that makes another call is detected, and nothing new needs to be trusted. Several communicators that open links
// at the same time do not interfere.
type inner struct {
	*group
	c     *Comm
	flags uint8 // engine.OnDevice: it opens the devices
}

// newInner returns the inner World of c for opening the links or devices that what names.
func newInner(c *Comm, what string) *inner {
	w := &inner{group: newGroup(c, c.idOf(what), numbers.Below(c.Size)), c: c}
	if what == openDevices {
		w.flags = engine.OnDevice
	}
	return w
}

// InParent returns r: errors name ranks of c by their numbers in c.
func (w *inner) InParent(r int) int { return r }

// The purposes of an inner World.
const (
	openDevices  = "devices"
	openExchange = "exchange"
)

// AllGather exchanges blobs.
func (w *inner) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	c := w.c
	return gatherBlobs(blob, c.Size, func(mine, all []byte) error {
		a := &Args{as: engine.Exchange, flags: w.flags}
		return c.heldGather(ctx, a.SetGather(c, kernel.Uint8, mine, all), &c.Waiter)
	})
}

// firstPart is the number of bytes of a blob that go with its length: nearly all blobs of a Split are shorter.
const firstPart = 504

// gatherBlobs gives every rank the blobs of all, by a gather of parts of one length: of the blobs' lengths and
// beginnings. If one is longer, a second gather brings the rests.
func gatherBlobs(blob []byte, ranks int, gather func(mine, all []byte) error) ([][]byte, error) {
	const part = 8 + firstPart
	mine, all := make([]byte, part), make([]byte, part*ranks)
	binary.LittleEndian.PutUint64(mine, uint64(len(blob)))
	sent := copy(mine[8:], blob)
	if err := gather(mine, all); err != nil {
		return nil, err
	}
	lengths, err := readLengths(all, part, ranks)
	if err != nil {
		return nil, err
	}
	rest := max(0, slices.Max(lengths)-firstPart)
	rests := make([]byte, rest*ranks)
	if rest > 0 {
		mine = make([]byte, rest)
		copy(mine, blob[sent:])
		if err := gather(mine, rests); err != nil {
			return nil, err
		}
	}
	out := make([][]byte, ranks)
	for r, n := range lengths {
		out[r] = all[r*part+8:][:min(n, firstPart):min(n, firstPart)]
		if n > firstPart {
			out[r] = append(out[r], rests[r*rest:][:n-firstPart]...)
		}
	}
	return out, nil
}

// maxBlob is the size limit of the messages in which ranks make a communicator, or open its links or devices.
const maxBlob = 64 << 20

// readLengths returns how long the ranks' blobs are, each within bounds, as the parts of b begin with.
func readLengths(b []byte, part, ranks int) ([]int, error) {
	if len(b) != part*ranks {
		return nil, fmt.Errorf("%d bytes with lengths for %d ranks", len(b), ranks)
	}
	lengths := make([]int, ranks)
	for r := range lengths {
		n := binary.LittleEndian.Uint64(b[part*r:])
		if n > uint64(maxBlob/ranks) {
			return nil, fmt.Errorf("rank %d announces a blob of %d bytes", r, n)
		}
		lengths[r] = int(n)
	}
	return lengths, nil
}
