package engine

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// step is a Fused with the links of this rank.
type step struct {
	args     []operand // what is combined, at least one
	receives int       // of args come from other ranks
	dst      plan.Buf  // None: the value is only sent
	dstPart  int       // the part of dst it goes to
	outs     []out     // where else it goes
	final    bool      // nothing is stored in dst's chunk later
	recvOnly bool      // what is stored in Out is received as it is: see lends
	zeroCopy bool      // any memory may be lent to all of outs

	prePosted, prePostedInPlace bool // it may be told beforehand where all its chunks belong: see markSteps
}

// operand is a chunk that another rank sends, or one of a buffer.
type operand struct {
	in   transport.Receiver      // nil: a buffer
	post transport.ReceivePoster // in, where what it brings goes to a buffer of the caller as it is; else nil
	from int32
	buf  plan.Buf
	part int // of buf
}

type out struct {
	to   int32
	link transport.Sender
}

// names reports whether s reads or writes buffer b.
func (s *step) names(b plan.Buf) bool {
	return s.dst == b || slices.ContainsFunc(s.args, func(a operand) bool { return a.in == nil && a.buf == b })
}

// isBuffer reports whether the value of s is the chunk of one buffer.
func (s *step) isBuffer() bool { return len(s.args) == 1 && s.args[0].in == nil }

// compile turns a track of lane l into steps on the links of a lane of the Layout, which it opens.
func (e *Engine) compile(p *plan.Plan, l *plan.Lane, t plan.Track, lane int) ([]step, error) {
	fused, err := Fuse(p, l.Part, t)
	if err != nil {
		return nil, err
	}
	all := make([]step, len(fused))
	for i := range fused {
		f, s := &fused[i], &all[i]
		*s = step{dst: f.Dst, dstPart: f.DstPart, final: f.Final}
		for _, a := range f.Args {
			o := operand{from: a.From, buf: a.Buf, part: a.Part}
			if a.Received() {
				s.receives++
				if o.in, err = e.receiver(lane, int(a.From)); err != nil {
					return nil, fmt.Errorf("step %d: from rank %d: %w", i, a.From, err)
				}
			}
			s.args = append(s.args, o)
		}
		for _, to := range f.To {
			o := out{to: to}
			if o.link, err = e.ep.Sender(lane, int(to)); err != nil {
				return nil, fmt.Errorf("step %d: to rank %d: %w", i, to, err)
			}
			s.outs = append(s.outs, o)
		}
		s.reach()
	}
	return all, nil
}

// reach finds out what the links of s can do with memory of the caller.
func (s *step) reach() {
	s.zeroCopy = len(s.outs) > 0
	for _, o := range s.outs {
		s.zeroCopy = s.zeroCopy && o.link.LendsAny()
	}
	if len(s.args) == 1 && (s.dst == plan.In || s.dst == plan.Out) {
		s.args[0].post, _ = s.args[0].in.(transport.ReceivePoster)
	}
}
