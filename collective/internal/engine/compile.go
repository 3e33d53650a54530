package engine

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// step is a plan.Fused with the links of this rank, and the properties that follow from them.
type step struct {
	plan.Fused
	operands []operand // Fused.Args, with their links
	outs     []out     // Fused.To, with their links
	receives int       // the number of operands that come from other ranks
	zeroCopy bool      // whether any memory may be lent to all of outs

	// See vary: the bytes of its part, the number of its elements, and whether its chunks may be longer than a slot.
	plan.Span
	count uint64
	wide  bool

	// See markSteps.
	keepsOut, keepsIn           bool // whether its value in Out, or in place in In, stays until all receivers have read it
	prePosted, prePostedInPlace bool // whether the targets of all its chunks may be posted in advance
}

// operand is a plan.Operand with its link.
type operand struct {
	plan.Operand
	in   transport.Receiver      // nil: a buffer
	post transport.ReceivePoster // in, where its chunks go to a buffer of the caller unchanged; else nil
}

type out struct {
	to   int32
	link transport.Sender
}

// compile turns fused steps into steps on the links of a lane of the Layout, which it opens.
func (e *Engine) compile(fused []plan.Fused, lane int) (all []step, err error) {
	all = make([]step, len(fused))
	for i := range fused {
		s := &all[i]
		s.Fused = fused[i]
		for _, a := range s.Args {
			o := operand{Operand: a}
			if a.Received() {
				s.receives++
				if o.in, err = e.receiver(lane, int(a.From)); err != nil {
					return nil, fmt.Errorf("step %d: from rank %d: %w", a.Step, a.From, err)
				}
			}
			s.operands = append(s.operands, o)
		}
		s.zeroCopy = len(s.To) > 0
		for _, t := range s.To {
			o := out{to: t.To}
			if o.link, err = e.ep.Sender(lane, int(t.To)); err != nil {
				return nil, fmt.Errorf("step %d: to rank %d: %w", t.Step, t.To, err)
			}
			s.outs = append(s.outs, o)
			s.zeroCopy = s.zeroCopy && o.link.LendsAny()
		}
		if len(s.operands) == 1 && (s.Dst == plan.In || s.Dst == plan.Out) {
			s.operands[0].post, _ = s.operands[0].in.(transport.ReceivePoster)
		}
	}
	return all, nil
}

// value returns the buffer that holds the value of s, None if no buffer does, its part, and the plan.Step that stores
// or reads it there.
func (s *step) value() (b plan.Buf, part, step int) {
	if s.Dst == plan.None && s.IsBuffer() {
		return s.Args[0].Buf, s.Args[0].Part, int(s.Args[0].Step)
	}
	return s.Dst, s.DstPart, int(s.DstStep)
}
