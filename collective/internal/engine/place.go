package engine

import "github.com/treerun/treerun/collective/plan"

// placeFrom is the size of a chunk, in bytes, from which it is received where it
// belongs, if the link can do so.
const placeFrom = 1 << 10

// markSteps marks the steps of this rank's tracks of a lane.
//
// A value of Out that is sent may be lent if nothing is stored in its place later. In place the input may be lent in a
// reduction if it goes to one other rank only, and this rank stores nothing in its place but one value that it
// receives whole: the result, for which that rank had to read the input. A rank that makes the result itself may be
// done before. So may one in a scan: the sum of the ranks before it needs no input of its own.
//
// The chunks of a step may all be received where they belong as soon as a call begins, however early they come, if no
// other step stores to the same place, so nothing that is there before is read again, and its link brings chunks for
// no other step. In place the caller's input is there before. A result comes after its makers have read that input,
// if all of it goes one way; that is so for AllReduce, where the whole input of a rank is part of its result, if one
// step reads it and sends to one rank; and in a Broadcast no receiver reads its input.
func markSteps(p *plan.Plan, lane int, tracks []track) {
	stores, users, reads, resultOnly := map[int]int{}, map[int32]int{}, 0, !p.Kind.Scans()
	for i := range tracks {
		for e := range tracks[i].steps {
			s := &tracks[i].steps[e]
			if s.Dst == plan.Out {
				resultOnly = resultOnly && stores[s.DstPart] == 0 && len(s.operands) == 1 && s.operands[0].in != nil
				stores[s.DstPart]++
			}
			for _, a := range s.operands {
				switch {
				case a.in != nil:
					users[a.From]++
				case a.Buf == plan.In:
					reads += max(1, len(s.outs))
				}
			}
		}
	}
	for i := range tracks {
		for e := range tracks[i].steps {
			s := &tracks[i].steps[e]
			if buf, part, step := s.value(); buf == plan.Out && len(s.outs) > 0 {
				s.keepsOut = stores[part] == 1 || p.Final(lane, tracks[i].index, step)
			}
			s.keepsIn = resultOnly && reads == 1
			if len(s.operands) != 1 || s.operands[0].post == nil || s.Dst != plan.Out {
				continue
			}
			s.prePosted = stores[s.DstPart] == 1 && users[s.operands[0].From] == 1
			s.prePostedInPlace = s.prePosted && (p.Kind == plan.Broadcast || p.Kind == plan.AllReduce) && reads <= 1
		}
	}
}

// place has all that the steps of t receive as it is put where it belongs, as far as that may be: t has just begun with
// its call, and the next chunks of its links belong to the call.
func (t *track) place() {
	c := t.call
	for i := range t.steps {
		s := &t.steps[i]
		if len(c.OutAt) > 0 {
			t.turn(s)
		}
		if c.places(s, t.Grain) && t.Bytes > 0 {
			s.operands[0].post.PostReceive(t.buffer(s.Dst, s.DstPart, c.In, c.Out, t.Start, t.Bytes), t.Grain)
		}
	}
}

// places reports whether place posts the receives of s, chunk bytes at a time.
func (c *Call) places(s *step, chunk int) bool {
	return s.prePosted && (s.prePostedInPlace || !c.inPlace) && chunk >= placeFrom && len(c.Pieces) == 0 && !c.wide
}

// peek returns the chunk of n bytes, from byte from of the lane on, that operand a
// of s receives, when it has come.
func (t *track) peek(s *step, a *operand, from, n int) ([]byte, bool, error) {
	c := t.call
	window, ok, err := a.in.TryPeek(&t.got)
	if ok || err != nil || a.post == nil || n < placeFrom || len(c.Pieces) > 0 || c.places(s, t.Grain) {
		return window, ok, err
	}
	a.post.PostReceive(t.buffer(s.Dst, s.DstPart, c.In, c.Out, t.Start+from, n), n)
	return nil, false, nil
}

// CancelReceives ends all that could still write to memory of callers. A call that fails ends with it.
func (e *Engine) CancelReceives() {
	for _, in := range e.Calls.Links {
		in.Receiver.CancelReceive()
	}
	e.Messages.CancelReceives()
}
