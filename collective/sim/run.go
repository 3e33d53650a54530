package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Operation is one call of a collective. Bytes is its whole message: all parts
// where the kind has parts. No rank issues it before AtUs.
type Operation struct {
	Plan  *plan.Plan
	Bytes int64
	AtUs  float64
}

// runner executes operations on a network.
type runner struct {
	*network
	queue
	now float64

	ops       []operation
	tracks    []trackState
	fifos     []fifoState
	transfers []transfer
	idle      []int32 // transfers that are over
	waiting   []int32 // by batch: the steps of it that could be taken

	left   []int32     // by operation and rank: tracks that have not ended
	ready  []bool      // by operation and rank: launched
	began  []float64   // when that was
	hostOf []int       // by rank: whose cores it uses
	places []corePlace // by rank: its core; nil: every track has one of its own
	cores  []core
	end    float64
	limit  float64 // of the time; 0: none
}

// errLonger reports that a run takes longer than its limit.
var errLonger = errors.New("sim: longer than the limit")

// operation is one execution of a program. Its tracks, FIFOs and ranks are
// numbered from the given numbers on.
type operation struct {
	*program
	atUs                     float64 // no rank issues it before
	track, fifo, rank, batch int32
}

type trackState struct {
	op    int32
	next  int32 // step
	chunk int32
	turn  int32 // of its rank, on its core
	busy  bool  // a step is being taken
	ready bool  // its step can be taken as soon as the others of the batch can
}

type fifoState struct {
	op      int32
	arrived int32 // chunks that the receiver has not begun to take
	sent    int32 // chunks that the receiver has not released
}

// transfer is a chunk on its way.
type transfer struct {
	fifo  int32
	at    int32 // resource of the route that comes next
	bytes int64
	until float64 // when its last byte is through
	track int32   // that waits for it to arrive, -1
}

// newRunner lays the operations out, all of them issued.
func newRunner(ops []Operation, w *network) (*runner, error) {
	r := &runner{network: w}
	hosts := coreHosts(w.g, w.m)
	r.hostOf, _ = topo.Places(hosts, w.g.Ranks)
	if w.m.Cores > 0 {
		r.places, r.cores = places(hosts, w.g.Ranks, w.m.Cores)
	}
	var pr *program
	for i, op := range ops {
		if i == 0 || op.Plan != ops[i-1].Plan || op.Bytes != ops[i-1].Bytes {
			var err error
			if pr, err = newProgram(op.Plan, op.Bytes, w); err != nil {
				return nil, err
			}
		}
		o := operation{pr, op.AtUs, int32(len(r.tracks)), int32(len(r.fifos)), int32(len(r.left)), int32(len(r.waiting))}
		r.waiting = append(r.waiting, make([]int32, len(pr.batches))...)
		r.ops = append(r.ops, o)
		for _, t := range pr.tracks {
			s := trackState{op: int32(i)}
			if r.places != nil {
				s.turn = int32(r.places[t.rank].turn)
			}
			r.tracks = append(r.tracks, s)
		}
		for range pr.fifos {
			r.fifos = append(r.fifos, fifoState{op: int32(i)})
		}
		for _, tracks := range pr.ofRank {
			r.left = append(r.left, int32(len(tracks)))
		}
	}
	r.ready, r.began = make([]bool, len(r.left)), make([]float64, len(r.left))
	return r, nil
}

// coreHosts returns the ranks that use the cores of each host.
func coreHosts(g *topo.Graph, m *Machine) [][]int {
	shared := topo.Graph{Ranks: g.Ranks, Hosts: g.Hosts}
	if m.CoreHosts != nil {
		shared.Hosts = m.CoreHosts
	}
	return shared.ByHost()
}

// run lets everything happen, and fails when something is left to do then.
func (r *runner) run() error {
	for op := range r.ops {
		if r.m.InFlight == 0 || op < r.m.InFlight {
			for rank := range r.g.Ranks {
				r.launch(op, rank)
			}
		}
	}
	for r.size > 0 {
		at, e := r.pop()
		r.now = at
		if r.limit > 0 && at > r.limit && (e.what == launched || slices.Max(r.left) > 0) {
			return errLonger // credits may come back after the end
		}
		switch e.what {
		case launched:
			r.begin(e.to)
		case sent:
			r.send(e.to, true)
		case stepped:
			r.finish(e.to)
		case turned:
			r.arrive(e.to)
		case passing:
			r.pass(e.to)
		case delivered:
			f := &r.fifos[e.to]
			f.arrived++
			o := &r.ops[f.op]
			r.wake(o, o.program.fifos[e.to-o.fifo].receiver)
		case credited:
			f := &r.fifos[e.to]
			f.sent--
			o := &r.ops[f.op]
			r.wake(o, o.program.fifos[e.to-o.fifo].sender)
		}
	}
	for i, left := range r.left {
		if left > 0 {
			op := i / r.g.Ranks
			return fmt.Errorf("sim: plan %s: operation %d: rank %d never ends: the plan is wrong (plan.Verify reports the "+
				"reason) or needs more than %d slots", r.ops[op].plan.Name, op, i%r.g.Ranks, r.m.Slots)
		}
	}
	return nil
}

// launch lets a rank begin an operation as soon as it is issued.
func (r *runner) launch(op, rank int) {
	r.push(max(r.now, r.ops[op].atUs)+r.m.LaunchUs, launched, int32(op*r.g.Ranks+rank))
}

// begin starts the tracks of an operation on a rank.
func (r *runner) begin(opRank int32) {
	r.ready[opRank], r.began[opRank] = true, r.now
	op, rank := int(opRank)/r.g.Ranks, opRank%int32(r.g.Ranks)
	o := &r.ops[op]
	if r.left[opRank] == 0 {
		r.ended(opRank)
		return
	}
	for _, t := range o.ofRank[rank] {
		r.try(o.track + t)
	}
}

// ended makes room for the next operation on a rank.
func (r *runner) ended(opRank int32) {
	r.end = max(r.end, r.now)
	if next := int(opRank)/r.g.Ranks + r.m.InFlight; r.m.InFlight > 0 && next < len(r.ops) {
		r.launch(next, int(opRank)%r.g.Ranks)
	}
}

func (r *runner) wake(o *operation, t int32) {
	if t >= 0 {
		r.try(o.track + t)
	}
}

// try takes the next step of track t if it can be taken, and on a device with it those of its batch.
func (r *runner) try(t int32) {
	s := &r.tracks[t]
	o := &r.ops[s.op]
	tr := &o.program.tracks[t-o.track]
	if s.busy || s.chunk >= tr.chunks || !r.ready[o.rank+tr.rank] {
		return
	}
	st := &tr.steps[s.next]
	if st.in >= 0 && r.fifos[o.fifo+st.in].arrived == 0 {
		return
	}
	if st.out >= 0 && r.m.Slots > 0 && int(r.fifos[o.fifo+st.out].sent) >= r.m.Slots {
		return
	}
	if st.batch < 0 {
		r.take(t)
		return
	}
	if !r.fills(o, s, st.batch) {
		return
	}
	chunk := s.chunk
	for _, b := range o.batches[st.batch] {
		if o.program.tracks[b.track].chunks > chunk {
			r.take(o.track + b.track)
		}
	}
}

// take takes the next step of track t, which has all it needs.
func (r *runner) take(t int32) {
	s := &r.tracks[t]
	o := &r.ops[s.op]
	tr := &o.program.tracks[t-o.track]
	st := &tr.steps[s.next]
	if st.in >= 0 {
		r.fifos[o.fifo+st.in].arrived--
	}
	if st.out >= 0 {
		r.fifos[o.fifo+st.out].sent++
	}
	s.busy, s.ready = true, false
	r.occupy(t, tr.rank)
}

// start begins the step of track t, which has all it needs.
func (r *runner) start(t int32) {
	tr, st, bytes := r.at(t)
	us := r.ownUs(st, bytes)
	s := &r.tracks[t]
	enqueued := r.began[r.ops[s.op].rank+tr.rank] + float64(float64(s.chunk)*tr.enqueueUs) + st.enqueued
	switch {
	case st.again: // the window is there already
		r.push(r.now+r.m.AgainUs, stepped, t)
	case r.inline(st):
		r.push(r.now+us, sent, t)
	default:
		r.push(max(r.now, enqueued)+us+r.workUs(st, bytes), stepped, t)
	}
}

// ownUs returns the time of a step in addition to the work on its bytes.
func (r *runner) ownUs(st *step, bytes int64) float64 {
	us := r.m.StepUs
	if st.joins {
		us = 0
	}
	return us + float64(float64(st.sockets)*(r.m.SocketUs+float64(float64(bytes)*usPerByte(r.m.SocketGBs))))
}

// inline reports whether a step itself moves the bytes that it sends to their destination.
func (r *runner) inline(st *step) bool { return r.m.Inline && st.out >= 0 && !st.hands }

// at returns the step of track t that is being taken, and the bytes of its
// chunk.
func (r *runner) at(t int32) (*track, *step, int64) {
	s := &r.tracks[t]
	o := &r.ops[s.op]
	tr := &o.program.tracks[t-o.track]
	bytes := tr.chunk
	if s.chunk == tr.chunks-1 {
		bytes = tr.last
	}
	return tr, &tr.steps[s.next], bytes
}

// workUs returns the time of a step's work on its bytes, without sending them.
func (r *runner) workUs(st *step, bytes int64) float64 {
	us := float64(bytes) * st.perByte
	switch st.work {
	case reduces:
		return max(us, float64(bytes)*usPerByte(r.m.ReduceGBs))
	case copies:
		return max(us, float64(bytes)*usPerByte(r.m.CopyGBs))
	}
	return us
}

// finish ends the step of track t.
func (r *runner) finish(t int32) {
	tr, st, _ := r.at(t)
	s := &r.tracks[t]
	o := &r.ops[s.op]
	if st.in >= 0 && r.m.Slots > 0 {
		r.push(r.now+r.all[o.program.fifos[st.in].route].latency, credited, o.fifo+st.in)
	}
	if st.out >= 0 && (!r.inline(st) || st.again) {
		r.send(t, false)
	}
	s.busy = false
	if s.next++; int(s.next) == len(tr.steps) {
		s.next = 0
		s.chunk++
	}
	if s.chunk < tr.chunks {
		r.try(t)
	} else {
		opRank := o.rank + tr.rank
		if r.left[opRank]--; r.left[opRank] == 0 {
			r.ended(opRank)
		}
	}
	if r.cores != nil { // last: the rank keeps the core while it can continue
		r.handOn(tr.rank)
	}
}

// send puts the chunk of track t's step on its way. The track waits for it if waits is set.
func (r *runner) send(t int32, waits bool) {
	_, st, bytes := r.at(t)
	if st.again {
		bytes = 0 // went with the step before
	}
	x := transfer{fifo: r.ops[r.tracks[t].op].fifo + st.out, bytes: bytes, track: -1}
	if waits {
		x.track = t
		x.until = r.now + r.workUs(st, bytes)
	}
	i := int32(len(r.transfers))
	if k := len(r.idle); k > 0 {
		i = r.idle[k-1]
		r.idle = r.idle[:k-1]
		r.transfers[i] = x
	} else {
		r.transfers = append(r.transfers, x)
	}
	r.pass(i)
}

// pass moves transfer i on along its route, until it has to wait.
func (r *runner) pass(i int32) {
	x := &r.transfers[i]
	o := &r.ops[r.fifos[x.fifo].op]
	route := &r.all[o.program.fifos[x.fifo-o.fifo].route]
	for int(x.at) < len(route.via) {
		first, last := r.resources[route.via[x.at]].carry(r.now, x.bytes, route.load(int(x.at)))
		x.until = max(x.until, last)
		x.at++
		if first > r.now && int(x.at) < len(route.via) {
			r.push(first, passing, i)
			return
		}
	}
	if x.track >= 0 {
		r.push(x.until, stepped, x.track)
	}
	r.push(x.until+route.latency, delivered, x.fifo)
	r.idle = append(r.idle, i)
}
