// Package mismatch finds out whether the ranks of a communicator make the same calls. Each rank publishes its calls,
// and every chunk has the header of its call: a difference is the fault of the communicator, whose text names both.
package mismatch

import (
	"math/bits"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Calls are the calls of the ranks of a communicator, as one of them knows them. The owner of the links calls the
// methods, except where any goroutine may.
type Calls struct {
	Links []Link // whose next chunks are compared with the calls of this rank

	rank, size int
	ep         transport.Endpoint
	chain      uint64    // digest of all calls of this rank so far
	log        *call.Log // of this rank
}

// Link is the receiving end of the link from a rank.
type Link struct {
	Src      int
	Receiver transport.Receiver
}

// New returns the Calls of a rank of size ranks, before the first, whose end of links is ep.
func New(ep transport.Endpoint, rank, size int) *Calls {
	return &Calls{rank: rank, size: size, ep: ep, log: new(call.Log)}
}

// SetLog has c record its calls in log, which is empty. Call it before the first.
func (c *Calls) SetLog(log *call.Log) { c.log = log }

// Enter records and publishes call id, which begins by the plan of the given digest, and stores its header in h. begins
// are those of its parts, where they differ and all ranks know them: their digest is in the header, too. The Chain of
// both is a digest of all calls so far, and of the plans that they run by. So a rank that runs the call by another plan
// than its peer, or has made another call earlier, from which both returned without data from each other, is detected
// at their next chunk. A call that runs elsewhere than on these links has no digest and no begins.
func (c *Calls) Enter(id *call.ID, h *call.Header, digest uint64, begins []int) {
	count := id.Count
	if id.CountsByPair() {
		count, begins = 0, nil
	}
	id.Chain, id.Parts = 0, digestOf(begins)
	id.Encode(h)
	c.chain = mixed(c.chain, digest^count*0x165667B19E3779F9^h.What*0xD6E8FEB86659FD93^uint64(id.Parts))
	id.Chain = uint8(c.chain >> 32)
	h.SetChain(id.Chain)
	c.ep.Enter(h)
	c.log.Put(h)
}

// digestOf returns a digest of where parts begin, 0 where none do.
func digestOf(begins []int) uint32 {
	sum := uint64(0)
	for _, n := range begins {
		sum = mixed(sum, uint64(n))
	}
	return uint32((sum ^ sum>>32) * 0xD6E8FEB86659FD93 >> 32)
}

// mixed adds v to a digest.
func mixed(digest, v uint64) uint64 { return bits.RotateLeft64((digest^v)*0x9E3779B97F4A7C15, 29) }

// callAt returns this rank's call with number seq, the latest one when that is
// too long ago or still to come. The owner of the links calls it.
func (c *Calls) callAt(seq uint64) call.ID {
	if id, ok := c.log.At(seq); ok {
		return id
	}
	return c.ep.Status(c.rank).Call.ID()
}

// Blocker describes rank r, which this rank waits for to do what. Any goroutine may call it.
func (c *Calls) Blocker(r int, what string) waits.Blocker {
	switch st := c.ep.Status(r); {
	case st.Closed:
		what += ", which has closed"
	case st.Call.Seq > 0:
		what += ", whose latest collective is " + st.Call.ID().String()
	}
	return waits.Blocker{Rank: r, What: what}
}
