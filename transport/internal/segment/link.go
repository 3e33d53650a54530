package segment

import (
	"fmt"
	"sync/atomic"

	"github.com/treerun/treerun/transport"
)

// end is the common part of both ends of a link.
type end struct {
	e          *Endpoint
	link       transport.Link
	mem        []byte    // of the FIFO
	place      int       // of the FIFO in the segment
	bell       *BellWord // of the peer
	peerClosed *uint32
	sync       raceSync
}

// idle reports whether an end that can do nothing now may be able to later.
func (d *end) idle() bool { return atomic.LoadUint32(d.peerClosed) == 0 }

// endError returns the error of a link whose peer has closed. Where the set has a fault it returns nil: the peer most
// likely closed because of it, and a waiting caller learns the fault, which is the first cause, from Aborted.
func (d *end) endError() error {
	if _, aborted := d.e.Aborted(); aborted {
		return nil
	}
	return d.failure(transport.ErrPeerClosed)
}

// failure adds the link to err.
func (d *end) failure(err error) error {
	if d.e.closed.Load() {
		err = transport.ErrClosed
	}
	return fmt.Errorf("lane %d, rank %d -> rank %d: %w", d.link.Lane, d.link.Src, d.link.Dst, err)
}
