package engine

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// Mismatch is the fault of two ranks whose calls of the same number differ: theirs is that of rank
// peer, mine that of this one. Any goroutine may call it.
func (e *Engine) Mismatch(peer int, theirs, mine call.ID) transport.Fault {
	text := fmt.Sprintf("rank %d called %v while rank %d called %v", peer, theirs, e.rank, mine)
	its, own := theirs, mine
	its.Number, own.Number = 0, 0
	switch {
	case mine.CountsAtRoot() && sameButChain(theirs, mine) && theirs.Chain == mine.Chain:
		root, r, has, counted := e.rank, peer, theirs.Count, mine.Count
		if e.rank != int(mine.Root) {
			root, r, has, counted = peer, e.rank, mine.Count, theirs.Count
		}
		return transport.Faultf(transport.FaultMismatch, -1, "rank %d has a part of %d elements in %v, the counts of rank "+
			"%d have %d for it", r, has, mine, root, counted)
	case theirs.Number != mine.Number && sameButChain(its, own):
		text = fmt.Sprintf("rank %d called %v as Init %d of those alike, while rank %d called Init %d (a plain call is as "+
			"Init 1): ranks make and start persistent calls that are alike in the same order", peer, own,
			theirs.Number+1, e.rank, mine.Number+1)
	case sameButChain(theirs, mine):
		by := "by different plans"
		if mine.Varied {
			by = "with different counts or " + by
		}
		text = fmt.Sprintf("rank %d and rank %d run %v %s, or have made different calls before it", peer, e.rank,
			mine, by)
	}
	return transport.Fault{Kind: transport.FaultMismatch, Rank: e.odd(peer, theirs, mine), Text: text}
}

// enter records and publishes call id, which begins by the plan of the given digest, and stores its header in h. The
// Chain of both is a digest of all calls so far, and of the plans that they run by. So a rank that runs the call by
// another plan than its peer, or has made another call earlier, from which both returned without data from each other,
// is detected at their next chunk.
func (e *Engine) enter(id *call.ID, h *call.Header, digest uint64, begins []int) {
	count := id.Count
	id.Chain = 0
	*h = id.Header()
	if id.CountsAtRoot() {
		count, begins = 0, nil
	}
	e.chained(digest ^ count*0x165667B19E3779F9 ^ h.Words()[2]*0xD6E8FEB86659FD93)
	for _, n := range begins {
		e.chained(uint64(n))
	}
	id.Chain = uint8(e.chain >> 32)
	h.Chain = id.Chain
	e.ep.Enter(h)
	e.log.Put(id)
}

// chained adds v to the digest of all calls.
func (e *Engine) chained(v uint64) { e.chain = bits.RotateLeft64((e.chain^v)*0x9E3779B97F4A7C15, 29) }

// differ returns the error of a difference between peer, which is in or sent a chunk of call theirs, and this rank, in
// call mine: it names the earliest call in which they are known to differ, as later calls differ too. Only the owner of
// the links calls it.
func (e *Engine) differ(peer int, theirs, mine call.ID) error {
	if err := e.firstDifference(peer, sameButChain); err != nil {
		return err
	}
	if !sameButChain(theirs, mine) {
		return e.Mismatch(peer, theirs, e.callAt(theirs.Seq))
	}
	if err := e.strayChunk(mine); err != nil {
		return err
	}
	for r := 1; r < e.size; r++ {
		if err := e.firstDifference((peer+r)%e.size, sameButChain); err != nil {
			return err
		}
	}
	if err := e.firstDifference(peer, sameChain); err != nil {
		return err
	}
	return e.Mismatch(peer, theirs, mine)
}

// firstDifference returns the earliest call that rank r is known to have made
// otherwise than this one, as same has it, nil when there is none among the latest. Any
// goroutine may call it.
func (e *Engine) firstDifference(r int, same func(a, b call.ID) bool) error {
	latest := e.ep.Status(e.rank).Call
	for back := transport.History; back >= 0 && r != e.rank; back-- {
		theirs, ok := e.ep.CallBefore(r, back)
		if !ok || theirs.Seq > latest.Seq || latest.Seq-theirs.Seq > transport.History {
			continue
		}
		mine, ok := e.ep.CallBefore(e.rank, int(latest.Seq-theirs.Seq))
		if ok && mine.Seq == theirs.Seq && !same(mine.ID(), theirs.ID()) {
			return e.Mismatch(r, theirs.ID(), mine.ID())
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
	if a.CountsAtRoot() && a.Kind == b.Kind {
		a.Count = b.Count
	}
	return a == b
}

func sameChain(a, b call.ID) bool { return a.Chain == b.Chain }

// callAt returns this rank's call with number seq, the latest one when that is
// too long ago or still to come. The owner of the links calls it.
func (e *Engine) callAt(seq uint64) call.ID {
	if id, ok := e.log.At(seq); ok {
		return id
	}
	return e.ep.Status(e.rank).Call.ID()
}

// odd returns the rank to blame for a mismatch between this rank and peer:
// the one with whose call fewer ranks are known to agree, -1 when that does not
// decide. A single odd rank can so never make another one look guilty.
func (e *Engine) odd(peer int, theirs, mine call.ID) int {
	with, against := 1, 1
	for r := range e.size {
		if r == e.rank || r == peer {
			continue
		}
		switch c := e.ep.Status(r).Call.ID(); {
		case sameButCount(c, mine):
			with++
		case sameButCount(c, theirs):
			against++
		}
	}
	switch {
	case with > against:
		return peer
	case against > with:
		return e.rank
	}
	return -1
}

// leftBefore looks for a rank that closed before it entered call mine.
func (e *Engine) leftBefore(mine call.ID) error {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && st.Closed && st.Call.Seq < mine.Seq {
			return &transport.LinkError{Peer: r, Err: transport.ErrPeerClosed}
		}
	}
	return nil
}

// compareCalls compares the latest calls and chunks of the other ranks with the call mine. A wait for a rank that made
// another call, or has left, would never end.
func (e *Engine) compareCalls(mine call.ID) error {
	for r := range e.size {
		if c := e.ep.Status(r).Call.ID(); r != e.rank && c.Seq == mine.Seq && !sameButCount(c, mine) {
			return e.differ(r, c, mine)
		}
	}
	if err := e.leftBefore(mine); err != nil {
		return err
	}
	return e.strayChunk(mine)
}

// strayChunk looks for a chunk of another call up to mine in any link: its sender took part in a call that this rank
// did not make, and may have continued since.
func (e *Engine) strayChunk(mine call.ID) error {
	for _, in := range e.inbound {
		var h call.Header
		_, ok, err := in.r.TryPeek(&h)
		if errors.Is(err, transport.ErrPeerClosed) {
			continue // it has done its part in this call, or leftBefore would have returned an error
		}
		if err != nil {
			return transport.OnLink(err, "receiving from", in.src)
		}
		if own := e.callAt(h.Seq); ok && h.Seq <= mine.Seq && !sameButChain(h.ID(), own) {
			return e.Mismatch(in.src, h.ID(), own)
		}
	}
	return nil
}

// Check compares the latest calls of this rank with the others', and aborts the Endpoint where they differ. It finds
// the calls from which every rank returns without data from the others, such as Broadcasts from different roots, or a
// GatherV to which a rank gives nothing by its own counts. Any goroutine may call it, now and then.
func (e *Engine) Check() {
	for _, same := range []func(a, b call.ID) bool{sameButChain, sameChain} {
		for r := range e.size {
			if err := e.firstDifference(r, same); err != nil {
				e.ep.Abort(transport.CallFault(err, e.rank, e.ep.Status(e.rank).Call.ID().String()))
				return
			}
		}
	}
}

// Settle waits, before this rank closes, until the others have entered its
// latest call too, but not longer than within, and compares. It returns the
// fault of the Endpoint. The owner of the links calls it.
func (e *Engine) Settle(within time.Duration) (transport.Fault, bool) {
	mine := e.ep.Status(e.rank).Call.ID()
	e.ep.FlushStatus()
	pause := 50 * time.Microsecond
	start, compare := time.Now(), time.Duration(0)
	for ; ; pause = min(2*pause, 5*time.Millisecond) {
		if f, failed := e.ep.Aborted(); failed {
			return f, true
		}
		behind := e.behind(mine) // read first: a rank that enters in between is compared the next time
		waited := time.Since(start)
		if last := !behind || waited > within; last || waited >= compare { // it checks every link: seldom
			err := e.compareCalls(mine)
			if err == nil {
				err = e.unanswered(mine)
			}
			if err != nil {
				e.ep.Abort(transport.CallFault(err, e.rank, mine.String()))
				return e.ep.Aborted()
			}
			if last {
				return transport.Fault{}, false
			}
			compare = 2 * waited
		}
		time.Sleep(pause)
	}
}

// behind reports whether a rank of known status has still to enter call mine.
func (e *Engine) behind(mine call.ID) bool {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && !st.Closed && !st.Unknown && st.Call.Seq < mine.Seq {
			return true
		}
	}
	return false
}

// unanswered looks for a call after mine, which this rank, about to close, will not make: one that
// another rank has entered, or of which a chunk has come. The fault is its own.
func (e *Engine) unanswered(mine call.ID) error {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && st.Call.Seq > mine.Seq {
			return transport.ClosedFault(e.rank, r, st.Call.ID().String())
		}
	}
	for _, in := range e.inbound {
		var h call.Header
		if _, ok, _ := in.r.TryPeek(&h); ok && h.Seq > mine.Seq {
			return transport.ClosedFault(e.rank, in.src, h.ID().String())
		}
	}
	return nil
}
