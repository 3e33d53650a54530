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
// performs its Kind. It runs the fused steps that ranks run, each of which waits for all its links at once. An error
// names the plan's own Step.
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
	m := newMachine(p, lane, slots)
	m.sum = sum
	if n := len(m.tracks); m.clocks && n > maxOrdered {
		return fmt.Errorf("plan %s: lane %d has %d tracks, and ranks with two of them: verify takes at most %d of those",
			p.Name, lane, n, maxOrdered)
	}
	for _, inPlace := range []bool{false, true} {
		m.begin(inPlace)
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
	sorts  bool    // steps combine their operands in the order of the ranks: see InOrder
	clocks bool    // some rank has two tracks: keep the order of events

	tracks []runner
	fifos  []fifo
	in     []cell    // [(rank*chunks+chunk)*parts+part]
	out    []cell    // the same cells when in place
	queue  []int     // tracks that may be able to go on
	values []*symbol // the operands of a step
}

// runner is a track on its way through the chunks.
type runner struct {
	*Track
	fused  []Fused
	ends   []Ends // by step of the Track
	pc     int    // index into fused
	chunk  int
	tmp    cell
	clock  []int32 // clock[u]: Steps of track u known to lie before this one's next
	queued bool
}

// fifo is one link, chunks in flight oldest first.
type fifo struct {
	FIFO
	inFlight []message
}

type message struct {
	symbol *symbol
	sent   stepAt
	clock  []int32 // the sender's after it sent; nil without clocks
}

func newMachine(p *Plan, lane, slots int) *machine {
	l := &p.Lanes[lane]
	m := &machine{plan: p, lane: lane, slots: slots, chunks: max(minChunks, slots+2), parts: 1, role: p.role(lane)}
	if m.role.exchange {
		m.parts = p.Size
	}
	fifos, ends := l.FIFOs()
	for _, f := range fifos {
		m.fifos = append(m.fifos, fifo{FIFO: f})
	}
	m.tracks = make([]runner, len(l.Tracks))
	seen := make([]bool, p.Size)
	for i := range l.Tracks {
		t := &l.Tracks[i]
		m.tracks[i] = runner{Track: t, fused: p.Fuse(lane, i), ends: ends[i]}
		m.clocks = m.clocks || seen[t.Rank]
		seen[t.Rank] = true
	}
	return m
}

// begin puts all tracks at their first chunk, and gives every rank that has an input its symbols.
func (m *machine) begin(inPlace bool) {
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
				m.in[(r*m.chunks+c)*m.parts+p] = cell{symbol: input(r*m.parts+p, c), used: true, stored: access{stepAt: nowhere}}
			}
		}
	}
	for t := range m.tracks {
		r := &m.tracks[t]
		r.chunk, r.tmp = 0, cell{}
		if m.clocks {
			r.clock = make([]int32, len(m.tracks))
		}
		m.wake(int32(t))
	}
}

// run steps every track until none can continue, then checks the results.
func (m *machine) run() error {
	for len(m.queue) > 0 {
		t := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.tracks[t].queued = false
		for r := &m.tracks[t]; r.chunk < m.chunks; {
			if f, _ := m.waitsFor(r); f >= 0 {
				break
			}
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

// waitsFor returns the first FIFO that keeps r from its next step, and the Step that uses it, or -1. r must not have
// finished.
func (m *machine) waitsFor(r *runner) (f, step int32) {
	s := &r.fused[r.pc]
	for _, a := range s.Args {
		if f := r.ends[a.Step].In; a.Received() && len(m.fifos[f].inFlight) == 0 {
			return f, a.Step
		}
	}
	for _, to := range s.To {
		if f := r.ends[to.Step].Out; len(m.fifos[f].inFlight) >= m.slots {
			return f, to.Step
		}
	}
	return -1, -1
}

// step takes the next step of track t, which is ready.
func (m *machine) step(t int) (err error) {
	r := &m.tracks[t]
	s := &r.fused[r.pc]
	at := func(step int32) stepAt { return stepAt{int32(t), step} }
	m.values = append(m.values[:0], make([]*symbol, len(s.Args))...)
	for i, a := range s.Args {
		if a.Received() {
			if m.values[i], err = m.receive(at(a.Step)); err != nil {
				return err
			}
		}
	}
	for i, a := range s.Args {
		if !a.Received() {
			if m.values[i], err = m.load(at(a.Step), a.Buf, a.Part); err != nil {
				return err
			}
		}
	}
	if m.sorts {
		m.sort(s.Args)
	}
	value := m.values[0]
	for i, v := range m.values[1:] {
		if m.sorts && value.parts[len(value.parts)-1].rank >= v.parts[0].rank {
			return m.fail(at(s.Args[i+1].Step), Unstable, "adds %v to %v", v, value)
		}
		value = value.plus(v, at(s.Args[i+1].Step))
	}
	if s.Dst != None {
		if err := m.store(at(s.DstStep), s.Dst, s.DstPart, value); err != nil {
			return err
		}
	}
	for _, to := range s.To {
		if s.Dst != None && to.Step > s.DstStep { // it sends what the Step before has stored
			if _, err := m.load(at(to.Step), s.Dst, s.DstPart); err != nil {
				return err
			}
		}
		m.send(at(to.Step), value)
	}
	if r.pc++; r.pc == len(r.fused) {
		r.pc = 0
		r.chunk++
	}
	return nil
}

// receive takes the chunk that a Step receives.
func (m *machine) receive(at stepAt) (*symbol, error) {
	r := &m.tracks[at.track]
	q := &m.fifos[r.ends[at.step].In]
	msg := q.inFlight[0]
	q.inFlight = append(q.inFlight[:0], q.inFlight[1:]...)
	m.wake(q.Sender)
	for u, c := range msg.clock {
		r.clock[u] = max(r.clock[u], c)
	}
	if msg.symbol.chunk != r.chunk {
		return nil, m.fail(at, WrongOrder, "receives chunk %d from rank %d, where chunk %d is due: %s sent it",
			msg.symbol.chunk, q.Src, r.chunk, m.text(msg.sent))
	}
	return msg.symbol, nil
}

// send puts a value on the link of a Step that sends.
func (m *machine) send(at stepAt, s *symbol) {
	r := &m.tracks[at.track]
	if m.clocks {
		r.clock[at.track] = m.time(at)
	}
	q := &m.fifos[r.ends[at.step].Out]
	q.inFlight = append(q.inFlight, message{symbol: s, sent: at, clock: slices.Clone(r.clock)})
	m.wake(q.Receiver)
}

// time returns the number of Steps of a track up to one for its chunk.
func (m *machine) time(at stepAt) int32 {
	r := &m.tracks[at.track]
	return int32(r.chunk*len(r.Steps)) + at.step + 1
}

// text names a Step, as in "rank 1's \"out = from 0\" (track 1, step 2)".
func (m *machine) text(at stepAt) string {
	if at.track < 0 {
		return "the caller"
	}
	r := &m.tracks[at.track]
	return fmt.Sprintf("rank %d's %q (track %d, step %d)", r.Rank, r.Steps[at.step], at.track, at.step)
}

// fail makes the error for a Step and the chunk that its track is at.
func (m *machine) fail(at stepAt, reason Reason, format string, args ...any) *VerifyError {
	return m.failAt(at, reason, fmt.Sprintf("of chunk %d ", m.tracks[at.track].chunk)+format, args...)
}

// failAt makes the error for a Step.
func (m *machine) failAt(at stepAt, reason Reason, format string, args ...any) *VerifyError {
	step := m.tracks[at.track].Steps[at.step]
	return m.plan.fail(m.lane, int(at.track), int(at.step), reason, "%q "+format, append([]any{step}, args...)...)
}
