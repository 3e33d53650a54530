package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
)

// runBatch enqueues the work of a batch's steps for chunk j, for lanes that have that chunk: wait until all links are
// ready, move, signal the other ends.
func (x *executor) runBatch(s *stream, steps []step, j uint32) error {
	x.active, x.signals = x.active[:0], x.signals[:0]
	for i := range steps {
		if int(j) < x.spans[steps[i].lane].Chunks {
			x.active = append(x.active, &steps[i])
		}
	}
	if len(x.active) == 0 {
		return nil
	}
	if err := x.pace(s); err != nil {
		return err
	}
	for _, st := range x.active {
		x.awaitArrivals(st, j)
		for i := range st.outs {
			x.awaitRoom(&st.outs[i], j)
		}
	}
	err := x.send(s)
	if err == nil {
		err = x.move(s, j)
	}
	x.fill(j)
	for _, st := range x.active {
		x.release(st, j)
	}
	x.awaitNextRoom(j + 1)
	if err == nil {
		err = x.send(s)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", describe(x.active), err)
	}
	return nil
}

// signal adds to the signals that a counter of a link is set to a value.
func (x *executor) signal(link int, c counter, value uint32) {
	_, a := x.links.flag(link, c)
	x.signals = append(x.signals, cuda.MemOp{Addr: a, Value: value})
}

// await adds to the signals a wait for the value of a counter of a link, unless it is there.
func (x *executor) await(link int, c counter, value uint32) {
	if !x.links.reached(link, c, value) {
		x.signal(link, c, value)
		x.signals[len(x.signals)-1].Wait = true
	}
}

// send puts the signals into s, as many at a time as the driver takes.
func (x *executor) send(s *stream) error {
	for part := range slices.Chunk(x.signals, cuda.MaxMemOps) {
		if err := x.memOps(s.Stream, part); err != nil {
			return err
		}
	}
	x.signals = x.signals[:0]
	return nil
}

// awaitArrivals waits for all payloads that the step receives.
func (x *executor) awaitArrivals(st *step, j uint32) {
	for i := range st.ins {
		if u := &st.ins[i]; u.link >= 0 {
			_, filled, _ := x.links.seqs(u, j)
			x.await(u.lender, published, filled)
		}
	}
}

// release signals that they have been read.
func (x *executor) release(st *step, j uint32) {
	for i := range st.ins {
		if u := &st.ins[i]; u.link >= 0 {
			count, _, _ := x.links.seqs(u, j)
			x.signal(u.link, released, count)
		}
	}
}

// awaitRoom waits for the releases that must precede the filling of out's slot.
func (x *executor) awaitRoom(out *output, j uint32) {
	_, _, slot := x.links.seqs(&out.use, j)
	for _, r := range x.links.states[out.lender].filled[slot] {
		if k := &x.links.states[r.link]; int32(r.value-k.waited) > 0 {
			k.waited = r.value
			x.await(r.link, released, r.value)
		}
	}
}

// awaitNextRoom waits for the releases that must precede the filling of slots for chunk j, which comes after the one at
// work, so that the steps need not wait again. It does so only where the payloads to release were sent two chunks
// before: the work that a stream waits for must come before all work that others enqueue meanwhile.
func (x *executor) awaitNextRoom(j uint32) {
	for _, st := range x.active {
		for i := range st.outs {
			out := &st.outs[i]
			each := x.links.states[out.lender].each.slots
			if int(j) < x.spans[st.lane].Chunks && 2*each <= uint32(x.links.layout.Slots) {
				x.awaitRoom(out, j)
			}
		}
	}
}

// fill signals that the slots of the steps are filled, and notes the readers that have to release them.
func (x *executor) fill(j uint32) {
	for _, st := range x.active {
		for i := range st.outs {
			out := &st.outs[i]
			_, filled, slot := x.links.seqs(&out.use, j)
			readers := &x.links.states[out.lender].filled[slot]
			*readers = (*readers)[:0]
			for k := range out.readers {
				count, _, _ := x.links.seqs(&out.readers[k], j)
				*readers = append(*readers, reader{link: out.readers[k].link, value: count})
			}
			x.signal(out.lender, published, filled)
		}
	}
}

// buffer is where the chunk at byte at of a part of a buffer lies.
func (x *executor) buffer(st *step, b plan.Buf, part, at int) cuda.Addr {
	base := x.call.In
	switch b {
	case plan.Out:
		base = x.call.Out
	case plan.Tmp:
		return x.scratch.at(st.track, scratchTmp)
	}
	return base + cuda.Addr(int64(part)*int64(x.call.Header.Count)*int64(x.call.DType.Size())+int64(at))
}

// describe names steps, the first few of many, in an error.
func describe(steps []*step) string {
	const most = 4
	text := ""
	for i, st := range steps {
		if i == most {
			return fmt.Sprintf("%sand %d more", text, len(steps)-most)
		}
		text += fmt.Sprintf("step of lane %d", st.lane)
		for _, a := range st.Args {
			if a.Received() {
				text += fmt.Sprintf(" from rank %d", a.From)
			}
		}
		for _, to := range st.To {
			text += fmt.Sprintf(" to rank %d", to.To)
		}
		text += ", "
	}
	return strings.TrimSuffix(text, ", ")
}
