package device

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// seqs returns the numbers of a use of a link: its payload is the count-th of the link, and the filled-th to fill a
// slot of its lender, both from 1 on. That slot has the number slot.
func (g *Group) seqs(u *use, j uint32) (count, filled, slot uint32) {
	k, lender := &g.links[u.link], &g.links[u.lender]
	count = k.count + j*k.each.n + u.n + 1
	filled = lender.slots + j*lender.each.slots + u.lenderN + 1
	return count, filled, (filled - 1) % uint32(g.layout.Slots)
}

// step enqueues the work of a batch's steps for chunk j, for lanes that have that chunk: wait until all links are
// ready, move, signal the other ends.
func (g *Group) step(s *lineup, c *Call, steps []todo, j uint32) error {
	now := g.now[:0]
	for i := range steps {
		if int(j) < g.spans[steps[i].lane].Chunks {
			now = append(now, &steps[i])
		}
	}
	if g.now = now; len(now) == 0 {
		return nil
	}
	if err := g.pace(s); err != nil {
		return err
	}
	signals := g.signals[:0]
	for _, do := range now {
		signals = g.arrivals(signals, do, j)
		for i := range do.outs {
			signals = g.room(signals, &do.outs[i], j)
		}
	}
	err := g.send(s, signals)
	if err == nil {
		err = g.move(s, c, now, j)
	}
	signals = signals[:0]
	signals = g.fill(signals, now, j)
	for _, do := range now {
		signals = g.release(signals, do, j)
	}
	signals = g.ahead(signals, now, j+1)
	g.signals = signals
	if err == nil {
		err = g.send(s, signals)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", g.describe(now), err)
	}
	return nil
}

// arrivals appends that all payloads which the step receives are there.
func (g *Group) arrivals(signals []cuda.MemOp, do *todo, j uint32) []cuda.MemOp {
	for i := range do.ins {
		if u := &do.ins[i]; u.link >= 0 {
			if _, filled, _ := g.seqs(u, j); !g.reached(u.lender, false, filled) {
				signals = append(signals, g.signal(u.lender, false, filled, true))
			}
		}
	}
	return signals
}

// release appends that they have been read.
func (g *Group) release(signals []cuda.MemOp, do *todo, j uint32) []cuda.MemOp {
	for i := range do.ins {
		if u := &do.ins[i]; u.link >= 0 {
			count, _, _ := g.seqs(u, j)
			signals = append(signals, g.signal(u.link, true, count, false))
		}
	}
	return signals
}

// room appends waits for the releases that must precede the filling of out's slot.
func (g *Group) room(signals []cuda.MemOp, out *share, j uint32) []cuda.MemOp {
	_, _, slot := g.seqs(&out.use, j)
	for _, r := range g.links[out.lender].filled[slot] {
		if k := &g.links[r.link]; int32(r.value-k.waited) > 0 {
			if k.waited = r.value; !g.reached(r.link, true, r.value) {
				signals = append(signals, g.signal(r.link, true, r.value, true))
			}
		}
	}
	return signals
}

// ahead appends waits for the releases that must precede the filling of slots for chunk j, which comes after the one at
// work, so that the steps need not wait again. It does so only where the payloads to release were sent two chunks
// before: the work that a stream waits for must come before all work that others enqueue meanwhile.
func (g *Group) ahead(signals []cuda.MemOp, steps []*todo, j uint32) []cuda.MemOp {
	for _, do := range steps {
		for i := range do.outs {
			out := &do.outs[i]
			if each := g.links[out.lender].each.slots; int(j) < g.spans[do.lane].Chunks && 2*each <= uint32(g.layout.Slots) {
				signals = g.room(signals, out, j)
			}
		}
	}
	return signals
}

// fill appends the signals that the slots of some steps are filled, and notes the readers that have to release them.
func (g *Group) fill(signals []cuda.MemOp, steps []*todo, j uint32) []cuda.MemOp {
	for _, do := range steps {
		for i := range do.outs {
			out := &do.outs[i]
			_, filled, slot := g.seqs(&out.use, j)
			readers := &g.links[out.lender].filled[slot]
			*readers = (*readers)[:0]
			for k := range out.readers {
				count, _, _ := g.seqs(&out.readers[k], j)
				*readers = append(*readers, reading{link: out.readers[k].link, value: count})
			}
			signals = append(signals, g.signal(out.lender, false, filled, false))
		}
	}
	return signals
}

// slotAddr is where the device of this rank sees a slot of a link.
func (g *Group) slotAddr(lender int, slot uint32) cuda.Addr {
	size := g.layout.bytesOf(&g.layout.links[lender])
	return g.links[lender].at + cuda.Addr(int64(slot)*int64(size))
}

// within is where byte at of a part of a buffer lies.
func (c *Call) within(buffer cuda.Addr, part, at int) cuda.Addr {
	return buffer + cuda.Addr(int64(part)*int64(c.Header.Count)*int64(c.DType.Size())+int64(at))
}

// buffer is where the chunk at byte at of a part of a buffer lies.
func (g *Group) buffer(c *Call, do *todo, b plan.Buf, part, at int) cuda.Addr {
	switch b {
	case plan.In:
		return c.within(c.In, part, at)
	case plan.Out:
		return c.within(c.Out, part, at)
	}
	return g.scratch.at(do.track, scratchTmp)
}

// payload is where a chunk lies that another rank sends.
func (g *Group) payload(u *use, j uint32) cuda.Addr {
	_, _, slot := g.seqs(u, j)
	return g.slotAddr(u.lender, slot)
}

// describe names steps in an error.
func (g *Group) describe(steps []*todo) string {
	text := ""
	for _, do := range steps {
		text += fmt.Sprintf("step of lane %d", do.lane)
		for _, a := range do.Args {
			if a.Received() {
				text += fmt.Sprintf(" from rank %d", a.From)
			}
		}
		for _, to := range do.To {
			text += fmt.Sprintf(" to rank %d", to.To)
		}
		text += ", "
	}
	return strings.TrimSuffix(text, ", ")
}
