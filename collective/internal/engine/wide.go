package engine

import (
	"fmt"

	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/transport"
)

// passedBytes is p2p.LentBytes where a rank passes on received chunks: the ranks behind it wait for the first chunk.
const passedBytes = 256 << 10

// wideChunk returns the size of the chunks of a lane. Where ranks pass on received chunks, a chunk has to fit the slots
// of a link together: a rank that sends it bit by bit may do so before it receives anything, and the others likewise.
func (e *Engine) wideChunk(passes bool) int {
	if passes {
		return min(passedBytes, e.linkBytes)
	}
	return p2p.LentBytes
}

// takeWide is take for a call whose chunks may be longer than slots: a step may need several turns, and t.moved counts
// the bytes that it has moved.
func (t *track) takeWide(s *step, from, chunk int) (bool, error) {
	for {
		n := chunk - t.moved
		var ok bool
		var err error
		if s.receives > 0 {
			n, ok, err = t.recvChunk(s, from+t.moved, n)
		} else {
			if len(s.outs) > 0 && !t.lends(s, n) {
				n = min(n, t.e.slotBytes)
			}
			ok, err = t.take(s, from+t.moved, n)
		}
		if err != nil || !ok {
			return false, err
		}
		if t.moved += n; t.moved == chunk {
			t.moved = 0
			return true, nil
		}
		t.e.steps++
	}
}

// recvChunk receives the next of the left bytes from byte from of the lane on, and returns their number; false when
// there are none yet.
func (t *track) recvChunk(s *step, from, left int) (n int, ok bool, err error) {
	a, c, e := &s.operands[0], t.call, t.e
	link := a.in.(transport.LentReceiver)
	n, ok, err = link.TryHead(&t.got)
	switch {
	case err != nil || !ok:
	case t.got != t.head:
		return 0, false, e.Calls.Differ(int(a.From), t.got.ID(), t.head.ID())
	case n > left || n == 0 && left > 0:
		return 0, false, fmt.Errorf("rank %d sent %d bytes where %d belong", a.From, n, left)
	case len(c.Pieces) > 0:
		ok, err = t.readPieces(link, t.Start+from, n)
	default:
		e.windows[0], ok, err = link.TryPeekInto(&t.got, t.buffer(s.Dst, s.DstPart, c.In, c.Out, t.Start+from, n))
		if ok && err == nil {
			t.move(s, nil, from, n)
		}
	}
	if err != nil || !ok {
		return 0, false, transport.OnLink(err, "receiving from", int(a.From))
	}
	a.in.Release()
	return n, true, nil
}

// readPieces reads the next n bytes, which are those from byte from of the
// message on, to the pieces where they belong.
func (t *track) readPieces(in transport.LentReceiver, from, n int) (bool, error) {
	for done := 0; done < n; {
		p, at := t.call.piece(from + done)
		m := min(n-done, p.End-from-done)
		if ok, err := in.TryRead(p.Out[at:at+m], done); err != nil || !ok {
			return false, err
		}
		done += m
	}
	return true, nil
}
