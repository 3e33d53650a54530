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
func (e *Engine) Mismatch(peer int, theirs, mine call.Header) transport.Fault {
	text := fmt.Sprintf("rank %d called %s while rank %d called %s", peer, Describe(theirs), e.rank, Describe(mine))
	its, n := numberOf(theirs)
	own, m := numberOf(mine)
	switch {
	case rooted(mine) && sameButChain(theirs, mine) && theirs.Chain == mine.Chain:
		root, r, has, counted := e.rank, peer, theirs.Count, mine.Count
		if e.rank != int(uint16(mine.Root)) {
			root, r, has, counted = peer, e.rank, mine.Count, theirs.Count
		}
		return transport.Faultf(transport.FaultMismatch, -1, "rank %d has a part of %d elements in %s, the counts of rank "+
			"%d have %d for it", r, has, Describe(mine), root, counted)
	case n != m && sameButChain(its, own):
		text = fmt.Sprintf("rank %d called %s as Init %d of those alike, while rank %d called Init %d (a plain call is as "+
			"Init 1): ranks make and start persistent calls that are alike in the same order", peer, Describe(own), n+1,
			e.rank, m+1)
	case sameButChain(theirs, mine):
		by := "by different plans"
		if mine.Kind&Varied != 0 && mine.Kind != messageKind {
			by = "with different counts or " + by
		}
		text = fmt.Sprintf("rank %d and rank %d run %s %s, or have made different calls before it", peer, e.rank,
			Describe(mine), by)
	}
	return transport.Fault{Kind: transport.FaultMismatch, Rank: e.odd(peer, theirs, mine), Text: text}
}

// enter notes call c, which begins, completes its header, and publishes it: its Chain is a digest of all calls so far,
// and of the plans that they run by. A rank that runs the call by another plan than its peer, or has made another call
// earlier, from which both returned without data from each other, is thus detected at their next chunk.
func (e *Engine) enter(c *Call) {
	h, digest := &c.Header, uint64(0)
	if c.program != nil {
		digest = c.program.digest
	}
	cut := uint64(c.Chunks.Max)<<32 | uint64(c.Chunks.Min)
	call := uint64(h.Kind) | uint64(h.Op)<<8 | uint64(h.DType)<<16 | uint64(uint32(h.Root))<<32
	count, begins := h.Count, c.Begins
	if rooted(*h) {
		count, begins = 0, nil
	}
	e.chained(digest ^ cut*0xC2B2AE3D27D4EB4F ^ count*0x165667B19E3779F9 ^ call*0xD6E8FEB86659FD93)
	for _, n := range begins {
		e.chained(uint64(n))
	}
	h.Chain = uint8(e.chain >> 32)
	e.ep.Enter(h)
	e.history[h.Seq%past] = *h
}

// chained adds v to the digest of all calls.
func (e *Engine) chained(v uint64) { e.chain = bits.RotateLeft64((e.chain^v)*0x9E3779B97F4A7C15, 29) }

// differ returns the error of a difference between peer, which is in or sent a chunk of call theirs, and this rank, in
// call mine: it names the earliest call in which they are known to differ, as later calls differ too. Only the owner of
// the links calls it.
func (e *Engine) differ(peer int, theirs, mine call.Header) error {
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
func (e *Engine) firstDifference(r int, same func(a, b call.Header) bool) error {
	latest := e.ep.Status(e.rank).Call
	for back := transport.History; back >= 0 && r != e.rank; back-- {
		theirs, ok := e.ep.CallBefore(r, back)
		if !ok || theirs.Seq > latest.Seq || latest.Seq-theirs.Seq > transport.History {
			continue
		}
		mine, ok := e.ep.CallBefore(e.rank, int(latest.Seq-theirs.Seq))
		if ok && mine.Seq == theirs.Seq && !same(mine, theirs) {
			return e.Mismatch(r, theirs, mine)
		}
	}
	return nil
}

// sameButChain reports whether two headers are of one call, regardless of the calls before it.
func sameButChain(a, b call.Header) bool {
	b.Chain = a.Chain
	return sameButCount(a, b)
}

// sameButCount reports whether two headers are equal, except for the count where each rank has its own.
func sameButCount(a, b call.Header) bool {
	if rooted(a) && a.Kind == b.Kind {
		a.Count = b.Count
	}
	return a == b
}

func sameChain(a, b call.Header) bool { return a.Chain == b.Chain }

// past is the number of its latest calls that a rank remembers. A rank can be that far ahead of another only while
// nothing flows back to it.
const past = 256

// callAt returns this rank's call with number seq, the latest one when that is
// too long ago or still to come. The owner of the links calls it.
func (e *Engine) callAt(seq uint64) call.Header {
	if h := e.history[seq%past]; h.Seq == seq {
		return h
	}
	return e.ep.Status(e.rank).Call
}

// odd returns the rank to blame for a mismatch between this rank and peer:
// the one with whose call fewer ranks are known to agree, -1 when that does not
// decide. A single odd rank can so never make another one look guilty.
func (e *Engine) odd(peer int, theirs, mine call.Header) int {
	with, against := 1, 1
	for r := range e.size {
		if r == e.rank || r == peer {
			continue
		}
		switch c := e.ep.Status(r).Call; {
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
func (e *Engine) leftBefore(mine call.Header) error {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && st.Closed && st.Call.Seq < mine.Seq {
			return &LinkError{Peer: r, Err: transport.ErrPeerClosed}
		}
	}
	return nil
}

// compareCalls compares the latest calls and chunks of the other ranks with the call mine. A wait for a rank that made
// another call, or has left, would never end.
func (e *Engine) compareCalls(mine call.Header) error {
	for r := range e.size {
		if c := e.ep.Status(r).Call; r != e.rank && c.Seq == mine.Seq && !sameButCount(c, mine) {
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
func (e *Engine) strayChunk(mine call.Header) error {
	for _, in := range e.inbound {
		var h call.Header
		_, ok, err := in.r.TryPeek(&h)
		if errors.Is(err, transport.ErrPeerClosed) {
			continue // it has done its part in this call, or leftBefore would have returned an error
		}
		if err != nil {
			return OnLink(err, "receiving from", in.src)
		}
		if own := e.callAt(h.Seq); ok && h.Seq <= mine.Seq && !sameButChain(h, own) {
			return e.Mismatch(in.src, h, own)
		}
	}
	return nil
}

// Check compares the latest calls of this rank with the others', and aborts the Endpoint where they differ. It finds
// the calls from which every rank returns without data from the others, such as Broadcasts from different roots, or a
// GatherV to which a rank gives nothing by its own counts. Any goroutine may call it, now and then.
func (e *Engine) Check() {
	for _, same := range []func(a, b call.Header) bool{sameButChain, sameChain} {
		for r := range e.size {
			if err := e.firstDifference(r, same); err != nil {
				e.ep.Abort(FaultOf(err, e.rank, Describe(e.ep.Status(e.rank).Call)))
				return
			}
		}
	}
}

// Settle waits, before this rank closes, until the others have entered its
// latest call too, but not longer than within, and compares. It returns the
// fault of the Endpoint. The owner of the links calls it.
func (e *Engine) Settle(within time.Duration) (transport.Fault, bool) {
	mine := e.ep.Status(e.rank).Call
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
				e.ep.Abort(FaultOf(err, e.rank, Describe(mine)))
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
func (e *Engine) behind(mine call.Header) bool {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && !st.Closed && !st.Unknown && st.Call.Seq < mine.Seq {
			return true
		}
	}
	return false
}

// unanswered looks for a call after mine, which this rank, about to close, will not make: one that
// another rank has entered, or of which a chunk has come. The fault is its own.
func (e *Engine) unanswered(mine call.Header) error {
	for r := range e.size {
		if st := e.ep.Status(r); r != e.rank && st.Call.Seq > mine.Seq {
			return ClosedBy(e.rank, r, Describe(st.Call))
		}
	}
	for _, in := range e.inbound {
		var h call.Header
		if _, ok, _ := in.r.TryPeek(&h); ok && h.Seq > mine.Seq {
			return ClosedBy(e.rank, in.src, Describe(h))
		}
	}
	return nil
}
