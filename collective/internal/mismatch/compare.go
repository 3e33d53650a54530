package mismatch

import (
	"errors"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Differ returns the error of a difference between peer, which is in or sent a chunk of call theirs, and this rank, in
// call mine: it names the earliest call in which they are known to differ, as later calls differ too. Only the owner of
// the links calls it.
func (c *Calls) Differ(peer int, theirs, mine call.ID) error {
	if err := c.firstDifference(peer, sameButChain); err != nil {
		return err
	}
	if !sameButChain(theirs, mine) {
		return c.Fault(peer, theirs, c.callAt(theirs.Seq))
	}
	if err := c.strayChunk(mine); err != nil {
		return err
	}
	for r := 1; r < c.size; r++ {
		if err := c.firstDifference((peer+r)%c.size, sameButChain); err != nil {
			return err
		}
	}
	if err := c.firstDifference(peer, sameChain); err != nil {
		return err
	}
	return c.Fault(peer, theirs, mine)
}

// firstDifference returns the earliest call that rank r is known to have made
// otherwise than this one, as same has it, nil when there is none among the latest. Any
// goroutine may call it.
func (c *Calls) firstDifference(r int, same func(a, b call.ID) bool) error {
	latest := c.ep.Status(c.rank).Call
	for back := transport.History; back >= 0 && r != c.rank; back-- {
		theirs, ok := c.ep.CallBefore(r, back)
		if !ok || theirs.Seq > latest.Seq || latest.Seq-theirs.Seq > transport.History {
			continue
		}
		mine, ok := c.ep.CallBefore(c.rank, int(latest.Seq-theirs.Seq))
		if ok && mine.Seq == theirs.Seq && !same(mine.ID(), theirs.ID()) {
			return c.Fault(r, theirs.ID(), mine.ID())
		}
	}
	return nil
}

// sameButChain reports whether two IDs are of one call, regardless of the calls before it.
func sameButChain(a, b call.ID) bool {
	b.Chain = a.Chain
	return sameButCount(a, b)
}

// sameButCount reports whether two IDs are equal, except for the count where each rank has its own.
func sameButCount(a, b call.ID) bool {
	if a.CountsByPair() && a.Kind == b.Kind {
		a.Count = b.Count
	}
	return a == b
}

func sameChain(a, b call.ID) bool { return a.Chain == b.Chain }

// leftBefore looks for a rank that closed before it entered call mine.
func (c *Calls) leftBefore(mine call.ID) error {
	for r := range c.size {
		if st := c.ep.Status(r); r != c.rank && st.Closed && st.Call.Seq < mine.Seq {
			return &transport.LinkError{Peer: r, Err: transport.ErrPeerClosed}
		}
	}
	return nil
}

// Compare compares the latest calls and chunks of the other ranks with the call mine. A wait for a rank that made
// another call, or has left, would never end.
func (c *Calls) Compare(mine call.ID) error {
	for r := range c.size {
		theirs := c.ep.Status(r).Call.ID()
		if r != c.rank && theirs.Seq == mine.Seq && !sameButCount(theirs, mine) {
			return c.Differ(r, theirs, mine)
		}
	}
	if err := c.leftBefore(mine); err != nil {
		return err
	}
	return c.strayChunk(mine)
}

// strayChunk looks for a chunk of another call up to mine in any link: its sender took part in a call that this rank
// did not make, and may have continued since.
func (c *Calls) strayChunk(mine call.ID) error {
	for _, in := range c.Links {
		var h call.Header
		_, ok, err := in.Receiver.TryPeek(&h)
		if errors.Is(err, transport.ErrPeerClosed) {
			continue // it has done its part in this call, or leftBefore would have returned an error
		}
		if err != nil {
			return transport.OnLink(err, "receiving from", in.Src)
		}
		if own := c.callAt(h.Seq); ok && h.Seq <= mine.Seq && !sameButChain(h.ID(), own) {
			return c.Fault(in.Src, h.ID(), own)
		}
	}
	return nil
}

// Check compares the latest calls of this rank with the others', and aborts the Endpoint where they differ. It finds
// the calls from which every rank returns without data from the others, such as Broadcasts from different roots, or a
// GatherV to which a rank gives nothing by its own counts. Any goroutine may call it, now and then.
func (c *Calls) Check() {
	for _, same := range []func(a, b call.ID) bool{sameButChain, sameChain} {
		for r := range c.size {
			if err := c.firstDifference(r, same); err != nil {
				c.ep.Abort(transport.CallFault(err, c.rank, c.ep.Status(c.rank).Call.ID().String()))
				return
			}
		}
	}
}

// CheckCall checks whether the other ranks have made other calls than this one, or left before they entered mine, which
// is under way elsewhere than on these links, and aborts the Endpoint if so. Any goroutine may call it.
func (c *Calls) CheckCall(mine call.ID) {
	c.Check()
	if err := c.leftBefore(mine); err != nil {
		c.ep.Abort(transport.CallFault(err, c.rank, mine.String()))
	}
}
