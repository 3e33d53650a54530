package engine

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/transport"
)

// take does step s for n bytes from byte from of the lane on, or reports false when a link is not ready. All links are
// checked before any is used.
func (t *track) take(s *step, from, n int) (bool, error) {
	e := t.e
	for i := range s.operands {
		a := &s.operands[i]
		if a.in == nil {
			continue
		}
		window, ok, err := t.peek(s, a, from, n)
		if err != nil || !ok {
			return false, transport.OnLink(err, "receiving from", int(a.From))
		}
		if t.got != t.head {
			return false, e.Calls.Differ(int(a.From), t.got.ID(), t.head.ID())
		}
		if len(window) != n {
			return false, fmt.Errorf("rank %d sent a chunk of %d bytes where %d belong", a.From, len(window), n)
		}
		e.windows[i] = window
	}
	lends := len(s.outs) > 0 && t.lends(s, n)
	to, ok, err := s.reserve(n, lends)
	if err != nil || !ok {
		return false, err
	}
	if lends {
		t.lend(s, from, n)
	} else {
		t.move(s, to, from, n)
	}
	if e.broken != nil {
		return false, e.broken
	}
	t.publish(s, lends)
	return true, nil
}

// reserve returns the window of n bytes that s sends, nil where it sends none or lends, once all its links have room:
// false before that.
func (s *step) reserve(n int, lends bool) (to []byte, ok bool, err error) {
	for i := len(s.outs) - 1; i >= 0; i-- {
		want := 0 // the others read the first one's slot
		if i == 0 && !lends {
			want = n
		}
		to, ok, err = s.outs[i].link.TryReserve(want)
		if err != nil || !ok {
			return nil, false, transport.OnLink(err, "sending to", int(s.outs[i].to))
		}
	}
	return to, true, nil
}

// publish signals on all links of s that its chunk has been moved: one fence for all of them, then a check for ranks
// that sleep.
func (t *track) publish(s *step, lent bool) {
	if len(s.outs) == 0 && s.receives == 1 {
		for i := range s.operands {
			if in := s.operands[i].in; in != nil {
				in.Release()
			}
		}
		return
	}
	for i := range s.operands {
		if in := s.operands[i].in; in != nil {
			in.Drop()
		}
	}
	switch {
	case len(s.outs) == 0 && s.receives == 0:
		return
	case len(s.outs) == 0 || lent:
		t.e.ep.Fence()
	default:
		lender := s.outs[0].link
		for _, o := range s.outs[1:] {
			o.link.Share(&t.head, lender)
		}
		lender.Commit(&t.head)
	}
	for i := range s.outs {
		if i > 0 || lent {
			s.outs[i].link.Wake()
		}
	}
	for i := range s.operands {
		if in := s.operands[i].in; in != nil {
			in.Wake()
		}
	}
}

// move computes the value of s for n bytes from byte from of the lane, and puts it into the window to, if there are
// links to send on, and into the buffer of s, if it has one. e.windows holds the received chunks.
func (t *track) move(s *step, to []byte, from, n int) {
	c, e := t.call, t.e
	if len(c.Pieces) == 0 {
		for i := range s.operands {
			if a := &s.operands[i]; a.in == nil {
				e.windows[i] = t.operand(a, c.In, c.Out, t.Start+from, n)
			}
		}
		var dst []byte
		if s.Dst != plan.None {
			dst = t.buffer(s.Dst, s.DstPart, c.In, c.Out, t.Start+from, n)
		}
		e.combine(c, e.windows[:len(s.operands)], to, dst)
		return
	}
	t.movePieces(s, to, t.Start+from, n)
}

// ownFrom is the size of a value, in bytes, from which it is computed in memory of this rank and then copied to the
// window: another core has the lines of the window, and kernel.Copy does not read them. AllReduce of 1 MiB on two ranks
// took 104 us in place of 130.
const ownFrom = cpu.CopyFrom

// combine computes the value of operands into to and dst, either of which may be nil.
func (e *Engine) combine(c *Call, operands [][]byte, to, dst []byte) {
	value := dst
	switch {
	case len(operands) == 1:
		value = operands[0]
	case to == nil:
	case len(to) < ownFrom:
		value = to
	case dst == nil || c.stream:
		value = e.scratch(len(to))
	}
	switch {
	case len(operands) == 1:
	case c.Func != nil:
		e.call(c, value, operands)
	case len(operands) == 2 && !c.stream:
		kernel.Reduce(c.Op, c.DType, value, operands[0], operands[1])
	case len(value) <= tiny:
		e.combineTiny(c, value, operands)
	default:
		kernel.ReduceMany(c.Op, c.DType, value, operands, c.stream && to == nil)
	}
	if dst != nil {
		kernel.Copy(dst, value, c.stream)
	}
	if to != nil {
		kernel.Copy(to, value, false)
	}
}

// call is combine by the function of the caller. The value grows apart where its place is that of an operand that comes
// later.
func (e *Engine) call(c *Call, value []byte, operands [][]byte) {
	if len(value) == 0 {
		return
	}
	acc := value
	for _, b := range operands[1:] {
		if &b[0] == &value[0] {
			acc = e.scratch(len(value))
		}
	}
	copy(acc, operands[0])
	for _, b := range operands[1:] {
		c.combine(acc, b)
	}
	copy(value, acc)
}

// scratch returns memory for n bytes of a chunk.
func (e *Engine) scratch(n int) []byte {
	if e.scaled == nil {
		e.scaled = make([]byte, e.slotBytes)
	}
	return e.scaled[:n]
}

// tiny is the number of bytes up to which operands are combined one after the other, by Go's own loops: a call of C for
// all of them would cost more, above all where ranks share cores and the scheduler takes the call for a pause.
const tiny = 64

// combineTiny is combine for at most tiny bytes. The value grows apart, as its
// place may be that of an operand.
func (e *Engine) combineTiny(c *Call, value []byte, operands [][]byte) {
	sum := e.tiny[:len(value)]
	kernel.Reduce(c.Op, c.DType, sum, operands[0], operands[1])
	for _, b := range operands[2:] {
		kernel.Reduce(c.Op, c.DType, sum, sum, b)
	}
	copy(value, sum)
}

// operand returns n bytes of the buffer that a names, from byte from of its part on, multiplied beforehand if the call
// requires it.
func (t *track) operand(a *operand, in, out []byte, from, n int) []byte {
	b := t.buffer(a.Buf, a.Part, in, out, from, n)
	if c, e := t.call, t.e; c.Scale && a.Buf == plan.In {
		scaled := e.scratch(n)
		kernel.ScaleCopy(c.DType, scaled, b, c.Factor)
		return scaled
	}
	return b
}

// buffer returns n bytes of b, from byte from of its part on.
func (t *track) buffer(b plan.Buf, part int, in, out []byte, from, n int) []byte {
	if begins := t.call.Begins; len(begins) > 0 {
		if b == plan.Out && len(t.call.OutAt) > 0 {
			begins = t.call.OutAt
		}
		from += begins[part] * t.call.DType.Size()
	} else {
		from += part * t.part
	}
	switch b {
	case plan.In:
		return in[from : from+n : from+n]
	case plan.Out:
		return out[from : from+n : from+n]
	default:
		return t.tmp[:n:n]
	}
}

// movePieces is move for a message in pieces, which has one part only.
func (t *track) movePieces(s *step, to []byte, from, n int) {
	c, e := t.call, t.e
	args := e.windows[:len(s.operands)]
	for done := 0; done < n; {
		p, at := c.piece(from + done)
		m := min(n-done, p.End-from-done)
		for i := range s.operands {
			switch a := &s.operands[i]; {
			case a.in != nil:
				e.pieces[i] = args[i][done : done+m]
			case a.Buf == plan.Tmp:
				e.pieces[i] = t.tmp[done : done+m]
			default:
				e.pieces[i] = t.operand(a, p.In, p.Out, at, m)
			}
		}
		var dst, window []byte
		switch s.Dst {
		case plan.None:
		case plan.Tmp:
			dst = t.tmp[done : done+m]
		default:
			dst = t.buffer(s.Dst, 0, p.In, p.Out, at, m)
		}
		if to != nil {
			window = to[done : done+m]
		}
		e.combine(c, e.pieces[:len(s.operands)], window, dst)
		done += m
	}
}

// piece returns the piece of the message that holds byte at, and where in it.
func (c *Call) piece(at int) (*Piece, int) {
	lo, hi := 0, len(c.Pieces)-1
	for lo < hi {
		if mid := (lo + hi) / 2; at < c.Pieces[mid].End {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	p := &c.Pieces[lo]
	if lo > 0 {
		at -= c.Pieces[lo-1].End
	}
	return p, at
}
