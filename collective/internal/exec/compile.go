package exec

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// step is what a track does with one chunk at once: its operands, combined in
// order, are the value; the value goes to a buffer, to other ranks, or to both.
// Every plan.Step is one, and some that follow each other become a single one:
// a rank with three children reads all their chunks in one pass, and a chunk
// for three children is written once. A step waits until all its links are
// ready; as chunk j of a plan never waits for a later chunk, that cannot get a
// verified plan stuck.
type step struct {
	args     []operand // what is combined, at least one
	receives int       // of args come from other ranks
	dst      plan.Buf  // None: the value is only sent
	dstPart  int       // the part of dst it goes to
	outs     []out     // where else it goes
	final    bool      // nothing is stored in dst's chunk later
	heard    bool      // what is stored in Out is received as it is: see lends
}

// operand is a chunk that another rank sends, or one of a buffer.
type operand struct {
	in   transport.Receiver // nil: a buffer
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

// compiler turns a plan's steps into steps of one lane and rank.
type compiler struct {
	kind     plan.Kind
	part     int // of the lane
	rank     int
	receiver func(src int32) (transport.Receiver, error)
	sender   func(dst int32) (transport.Sender, error)
}

func compile(p *plan.Plan, l *plan.Lane, t plan.Track, receiver func(int32) (transport.Receiver, error), sender func(int32) (transport.Sender, error)) ([]step, error) {
	c := compiler{kind: p.Kind, part: l.Part, rank: t.Rank, receiver: receiver, sender: sender}
	var all []step
	for i, from := range t.Steps {
		s, err := c.step(from)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		if n := len(all); n == 0 || !merge(&all[n-1], &s, t.Steps[i+1:]) {
			all = append(all, s)
		}
	}
	for i := range all {
		for _, a := range all[i].args {
			if a.in != nil {
				all[i].receives++
			}
		}
		all[i].final = !slices.ContainsFunc(all[i+1:], func(s step) bool { return s.dst == all[i].dst && s.dstPart == all[i].dstPart })
	}
	return all, nil
}

// step turns one step of the plan, as it stands, into one of ours.
func (c *compiler) step(from plan.Step) (s step, err error) {
	var in operand
	if from.From >= 0 {
		in.from = from.From
		if in.in, err = c.receiver(from.From); err != nil {
			return s, fmt.Errorf("from rank %d: %w", from.From, err)
		}
	}
	if from.To >= 0 {
		o := out{to: from.To}
		if o.link, err = c.sender(from.To); err != nil {
			return s, fmt.Errorf("to rank %d: %w", from.To, err)
		}
		s.outs = []out{o}
	}
	inPart, outPart := c.kind.Parts(c.part, c.rank, from)
	partOf := func(b plan.Buf) int {
		switch b {
		case plan.In:
			return inPart
		case plan.Out:
			return outPart
		}
		return 0
	}
	src := operand{buf: from.Src, from: -1, part: partOf(from.Src)}
	switch from.Op {
	case plan.Send, plan.Copy:
		s.args = []operand{src}
	case plan.Recv, plan.RecvCopySend:
		s.args = []operand{in}
	case plan.RecvReduce, plan.RecvReduceSend, plan.RecvReduceCopySend:
		s.args = []operand{src, in}
	case plan.LocalReduce:
		s.args = []operand{{buf: from.Dst, from: -1, part: partOf(from.Dst)}, src}
	default:
		return s, fmt.Errorf("unknown step %d, which Verify rejects", from.Op)
	}
	s.dst, s.dstPart = from.Dst, partOf(from.Dst)
	return s, nil
}

// merge makes s part of the step before it, where that changes nothing but the
// number of passes over memory; rest are the steps of the plan after s.
func merge(before, s *step, rest []plan.Step) bool {
	switch {
	case before.dst != plan.None && len(before.outs) == 0 && len(s.args) == 2 && s.args[0].is(before.dst, before.dstPart):
		// The value so far is combined with one more.
		if s.dst != before.dst && (before.dst != plan.Tmp || reads(rest, plan.Tmp)) {
			return false
		}
		before.args = append(before.args, s.args[1])
		before.dst, before.dstPart, before.outs = s.dst, s.dstPart, s.outs
		return true
	case s.isBuffer() && s.dst == plan.None && before.dst != plan.None && s.args[0].is(before.dst, before.dstPart):
		// The value is also sent.
		before.outs = append(before.outs, s.outs...)
		return true
	case s.isBuffer() && s.dst == plan.None && before.isBuffer() && before.dst == plan.None && s.args[0] == before.args[0]:
		// The same chunk of a buffer goes to one more rank.
		before.outs = append(before.outs, s.outs...)
		return true
	}
	return false
}

func (a operand) is(b plan.Buf, part int) bool { return a.in == nil && a.buf == b && a.part == part }

// reads reports whether any of the steps reads b before one writes it anew.
func reads(steps []plan.Step, b plan.Buf) bool {
	for _, s := range steps {
		if s.Src == b || s.Op == plan.LocalReduce && s.Dst == b {
			return true
		}
		if s.Dst == b {
			return false
		}
	}
	return false
}
