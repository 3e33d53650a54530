package plan

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds of the run that Verify makes. A plan that runs with few slots runs
// with more, so that slots beyond maxSlots prove nothing new. The order of
// events takes memory that grows with the square of the tracks.
const (
	minChunks  = 3
	maxSlots   = 64
	maxOrdered = 1 << 13 // tracks of a lane in which some rank has two
	maxInputs  = 1 << 18 // parts that the ranks of an AllToAll give, all together
)

// Verify runs p on all ranks with symbols for data and reports the first error, as a *VerifyError; nil means that p
// performs its Kind.
//
// A symbol has the number of times that each rank's input is in a value, and its chunk. Every FIFO holds at most slots
// chunks; the run has more chunks than slots, at least 3. It is made twice: with In and Out apart, and with In and Out
// the same memory. The possible errors are the Reasons. Two tracks of a rank that touch the same chunk of a buffer must
// be ordered by chunks that were delivered; the slots being full orders nothing, as another transport may have more of
// them.
//
// 8 ranks take about 50 us, 512 ranks with two tracks each about 50 ms. A lane
// of more than 8192 tracks in which some rank has two is refused, and so is an
// AllToAll of more than 512 ranks.
func Verify(p *Plan, slots int) error { return verify(p, slots, nil) }

// verify is Verify, and VerifyStable with hosts.
func verify(p *Plan, slots int, hosts [][]int) error {
	if slots < 1 {
		return fmt.Errorf("plan %s: verify with %d slots, want at least 1", p.Name, slots)
	}
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Kind == AllToAll && p.Size*p.Size > maxInputs {
		return fmt.Errorf("plan %s: %v of %d ranks: verify takes at most %d parts in all", p.Name, p.Kind, p.Size, maxInputs)
	}
	slots = min(slots, maxSlots)
	var sum *symbol
	if hosts != nil {
		sum = sumOver(hosts)
	}
	for lane := range p.Lanes {
		if err := p.verifyLane(lane, slots, sum); err != nil {
			return err
		}
	}
	return nil
}

// verifyLane runs one lane of a valid plan both ways. The results of a reduction
// must have been made as sum was, if that is not nil.
func (p *Plan) verifyLane(lane, slots int, sum *symbol) error {
	for _, inPlace := range []bool{false, true} {
		m := newMachine(p, lane, slots, max(minChunks, slots+2), inPlace)
		m.sum = sum
		if n := len(m.tracks); m.clocks && n > maxOrdered {
			return fmt.Errorf("plan %s: lane %d has %d tracks, and ranks with two of them: verify takes at most %d of those",
				p.Name, lane, n, maxOrdered)
		}
		err := m.run()
		if wrong, ok := errors.AsType[*VerifyError](err); ok {
			wrong.InPlace = inPlace
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// machine runs one lane.
type machine struct {
	plan   *Plan
	lane   int
	role   role
	slots  int
	chunks int
	parts  int     // that a rank's buffers have: 1, but in an AllToAll
	sum    *symbol // the required sum of a reduction; nil: any sum of the right inputs
	clocks bool    // some rank has two tracks: keep the order of events

	tracks []runner
	fifos  []fifo
	in     []cell // [(rank*chunks+chunk)*parts+part]
	out    []cell // the same cells when in place
	queue  []int  // tracks that may be able to go on
}

// runner is a track on its way through the chunks.
type runner struct {
	rank   int
	steps  []Step
	ends   []Ends // by step
	pc     int
	chunk  int
	tmp    cell
	clock  []int32 // clock[u]: steps of track u known to lie before this one's next
	queued bool
}

// fifo is one link, chunks in flight oldest first.
type fifo struct {
	FIFO
	inFlight []message
}

type message struct {
	symbol *symbol
	sent   place
	clock  []int32 // the sender's after it sent; nil without clocks
}

func newMachine(p *Plan, lane, slots, chunks int, inPlace bool) *machine {
	l := &p.Lanes[lane]
	m := &machine{plan: p, lane: lane, slots: slots, chunks: chunks, parts: 1, role: p.role(lane)}
	if m.role.exchange {
		m.parts = p.Size
	}
	m.tracks = make([]runner, len(l.Tracks))
	seen := make([]bool, p.Size)
	for _, t := range l.Tracks {
		m.clocks = m.clocks || seen[t.Rank]
		seen[t.Rank] = true
	}
	fifos, ends := l.FIFOs()
	for _, f := range fifos {
		m.fifos = append(m.fifos, fifo{FIFO: f})
	}
	for i, t := range l.Tracks {
		m.tracks[i] = runner{rank: t.Rank, steps: t.Steps, ends: ends[i]}
	}
	m.fill(inPlace)
	return m
}

// fill gives every rank that has an input its symbols.
func (m *machine) fill(inPlace bool) {
	m.in = make([]cell, m.plan.Size*m.chunks*m.parts)
	m.out = m.in
	if !inPlace {
		m.out = make([]cell, len(m.in))
	}
	for r := range m.plan.Size {
		if m.role.in >= 0 && r != m.role.in {
			continue
		}
		for c := range m.chunks {
			for p := range m.parts {
				m.in[(r*m.chunks+c)*m.parts+p] = cell{symbol: input(r*m.parts+p, c), used: true, stored: access{place: nowhere}}
			}
		}
	}
}

// run steps every track until none can continue, then checks the results.
func (m *machine) run() error {
	for t := range m.tracks {
		if m.clocks {
			m.tracks[t].clock = make([]int32, len(m.tracks))
		}
		m.wake(int32(t))
	}
	for len(m.queue) > 0 {
		t := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.tracks[t].queued = false
		for m.ready(t) {
			if err := m.step(t); err != nil {
				return err
			}
		}
	}
	err := m.stuck()
	for c := 0; c < m.chunks && err == nil; c++ {
		err = m.checkResults(c)
	}
	return err
}

func (m *machine) wake(t int32) {
	if t >= 0 && !m.tracks[t].queued {
		m.tracks[t].queued = true
		m.queue = append(m.queue, int(t))
	}
}

// ready reports whether track t's next step can be taken.
func (m *machine) ready(t int) bool {
	r := &m.tracks[t]
	return r.chunk < m.chunks && m.waitsFor(r) < 0
}

// waitsFor returns the FIFO that keeps r from its next step, -1 when none
// does. r must not have finished.
func (m *machine) waitsFor(r *runner) int32 {
	if f := r.ends[r.pc].In; f >= 0 && len(m.fifos[f].inFlight) == 0 {
		return f
	}
	if f := r.ends[r.pc].Out; f >= 0 && len(m.fifos[f].inFlight) >= m.slots {
		return f
	}
	return -1
}

// step takes the next step of track t, which is ready.
func (m *machine) step(t int) error {
	r := &m.tracks[t]
	s := r.steps[r.pc]
	var value *symbol
	if m.clocks {
		r.clock[t]++
	}
	if f := r.ends[r.pc].In; f >= 0 {
		q := &m.fifos[f]
		msg := q.inFlight[0]
		q.inFlight = append(q.inFlight[:0], q.inFlight[1:]...)
		m.wake(q.Sender)
		for u, c := range msg.clock {
			r.clock[u] = max(r.clock[u], c)
		}
		if msg.symbol.chunk != r.chunk {
			return m.fail(t, WrongOrder, "receives chunk %d from rank %d, where chunk %d is due: %s sent it",
				msg.symbol.chunk, s.From, r.chunk, m.text(msg.sent))
		}
		value = msg.symbol
	}
	if s.Op.Reads() {
		local, err := m.load(t, s.Src)
		if err != nil {
			return err
		}
		if value == nil {
			value = local
		} else {
			value = value.plus(local, m.place(t))
		}
	}
	if opUses[s.Op].acc {
		before, err := m.load(t, s.Dst)
		if err != nil {
			return err
		}
		value = value.plus(before, m.place(t))
	}
	if s.Op.Writes() {
		if err := m.store(t, s.Dst, value); err != nil {
			return err
		}
	}
	if f := r.ends[r.pc].Out; f >= 0 {
		q := &m.fifos[f]
		q.inFlight = append(q.inFlight, message{symbol: value, sent: m.place(t), clock: slices.Clone(r.clock)})
		m.wake(q.Receiver)
	}
	if r.pc++; r.pc == len(r.steps) {
		r.pc = 0
		r.chunk++
	}
	return nil
}

// place is that of track t's next step.
func (m *machine) place(t int) place { return place{int32(t), int32(m.tracks[t].pc)} }

// text names a step, as in "rank 1's \"out = from 0\" (track 1, step 2)".
func (m *machine) text(at place) string {
	if at.track < 0 {
		return "the caller"
	}
	r := &m.tracks[at.track]
	return fmt.Sprintf("rank %d's %q (track %d, step %d)", r.rank, r.steps[at.step], at.track, at.step)
}

// fail makes the error for track t's next step.
func (m *machine) fail(t int, reason Reason, format string, args ...any) *VerifyError {
	r := &m.tracks[t]
	return m.failAt(m.place(t), reason, fmt.Sprintf("of chunk %d ", r.chunk)+format, args...)
}

// failAt makes the error for a step.
func (m *machine) failAt(at place, reason Reason, format string, args ...any) *VerifyError {
	step := m.tracks[at.track].steps[at.step]
	return m.plan.fail(m.lane, int(at.track), int(at.step), reason, "%q "+format, append([]any{step}, args...)...)
}
