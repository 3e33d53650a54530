package device

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/transport"
)

// schedule is a plan as one rank runs it.
type schedule struct {
	plan    *plan.Plan
	lanes   []lane
	batches []batch  // for one chunk of every lane, in the order in which they are enqueued
	tracks  int      // of the rank
	streams int      // of which batches may be on different ones
	slots   Location // where the smallest of them lie
}

// batch is the steps of the rank that have one level. None waits for another, nor touches memory that another writes:
// plan.Verify has proved that steps with the same memory are ordered, and then their levels differ.
type batch struct {
	steps  []step
	stream int
}

// lane is the work of a rank on one chunk of a lane, and the number of uses of the lane's links for it, also those of
// other ranks whose slots it reads.
type lane struct {
	plan.Share
	uses    []linkUses
	message *Transfer // the message that is all it moves, else nil
}

// linkUses holds the number of payloads that a link carries per chunk, and the number of its slots filled for them:
// fewer where it carries payloads that lie in another link's slots.
type linkUses struct {
	link     int
	n, slots uint32
}

// step is one fused step of the rank.
//
// The batches of all ranks have an order in which each comes after all that its steps wait for: chunk by chunk, and
// within one by level. The level of a batch, that of all its steps in all lanes, is above the levels of the steps that
// they wait for. A rank enqueues its batches in that order. So even where several of its streams are one queue of the
// device, or are one stream, the first operation in the device's queue can be done, or waits for one that another rank
// has enqueued already, or will.
type step struct {
	plan.Fused
	lane  int
	track int // of the rank's tracks
	level int
	ins   []use    // for every operand, link -1 where it is a buffer
	outs  []output // the slots that the value goes to
}

// use is the n-th use of a link per chunk, from 0 on. The payload
// lies in a slot of link lender, which is at its own use then.
type use struct {
	link, lender int
	n, lenderN   uint32
}

// output is one slot that is written, and its readers: a value for several ranks that read it directly is written once.
type output struct {
	use
	readers []use
}

// runner is a track on its way through one chunk.
type runner struct {
	rank   int
	track  int // of its rank
	steps  []plan.Fused
	next   int
	latest int // the node of the latest step, -1 for none
}

// fifo is the state of a link while order runs: the payloads sent and not received.
type fifo struct {
	link    int
	sent    uint32
	waiting []use   // the payloads on the link, oldest first
	senders []int   // the nodes of the steps that sent them
	written uint32  // slots of it that were filled
	unread  []int   // readers left, by slot filled
	readers [][]int // the nodes of those that were there, by slot filled
}

// scheduler finds the order of one lane.
type scheduler struct {
	l     *Layout
	fifos map[transport.Link]*fifo
	of    func(plan.Link) transport.Link
	lane  int
	own   *lane
	steps []step // of the rank
	at    []int  // their nodes

	// The nodes are the steps of all ranks, each behind all that it waits for: the nodes of its list.
	before [][]int
}

// schedule orders the steps of a plan.
func (l *Layout) schedule(p *plan.Plan) (schedule, error) {
	s := schedule{plan: p}
	linkOf := lanesOf(p)
	for _, k := range p.Links() {
		if l.links[l.find(linkOf(k))].location == InHost {
			s.slots = InHost
		}
	}
	var own []step
	for i, share := range p.Shares() {
		from := &p.Lanes[i]
		one := lane{Share: share}
		var tracks []runner
		for k, t := range from.Tracks {
			r := runner{rank: t.Rank, steps: p.Fuse(i, k), latest: -1}
			if t.Rank == l.rank {
				r.track = s.tracks
				s.tracks++
			}
			tracks = append(tracks, r)
		}
		o := scheduler{l: l, fifos: map[transport.Link]*fifo{}, of: linkOf, lane: i, own: &one}
		if err := o.order(tracks); err != nil {
			return s, fmt.Errorf("lane %d: %w", i, err)
		}
		s.lanes = append(s.lanes, one)
		own = append(own, o.steps...)
	}
	s.batch(own)
	return s, nil
}

// batch puts the rank's steps of a chunk into batches, and those onto streams: all steps of a track, and with it all
// steps of a batch, are on one stream.
func (s *schedule) batch(own []step) {
	slices.SortStableFunc(own, func(a, b step) int { return a.level - b.level })
	streams := numbers.Below(s.tracks) // by track: one that is on the same stream
	for _, st := range own {
		if n := len(s.batches) - 1; n >= 0 && s.batches[n].steps[0].level == st.level {
			with := streams[s.batches[n].steps[0].track]
			for t, from := 0, streams[st.track]; t < len(streams); t++ {
				if streams[t] == from {
					streams[t] = with
				}
			}
			s.batches[n].steps = append(s.batches[n].steps, st)
			continue
		}
		s.batches = append(s.batches, batch{steps: []step{st}})
	}
	used := slices.Compact(slices.Sorted(slices.Values(streams)))
	for i := range s.batches {
		b := &s.batches[i]
		b.stream, _ = slices.BinarySearch(used, streams[b.steps[0].track])
	}
	s.streams = len(used)
}

// order takes all tracks through one chunk, one step of each in turn, and notes
// those of the rank. Between chunks of this order all links are empty.
func (o *scheduler) order(tracks []runner) error {
	for {
		moved, left := false, -1
		for i := range tracks {
			t := &tracks[i]
			if t.next == len(t.steps) {
				continue
			}
			if !o.ready(t) {
				left = i
				continue
			}
			o.advance(t)
			moved = true
		}
		if moved {
			continue
		}
		if left >= 0 {
			t := &tracks[left]
			return fmt.Errorf("stuck: rank %d cannot take step %d, which Verify rejects", t.rank, t.next)
		}
		for _, ln := range o.fifos {
			o.own.uses = append(o.own.uses, linkUses{link: ln.link, n: ln.sent, slots: ln.written})
		}
		o.setLevels()
		return nil
	}
}

// fifo returns the link between two ranks.
func (o *scheduler) fifo(src, dst int32) *fifo {
	k := o.of(plan.Link{Lane: o.lane, Src: int(src), Dst: int(dst)})
	ln := o.fifos[k]
	if ln == nil {
		ln = &fifo{link: o.l.find(k)}
		o.fifos[k] = ln
	}
	return ln
}

// groups splits the receivers of a step by the slot that they read: one in each location for all
// that read it there, but one for each that has it in its own memory, or gets it over the network.
func (o *scheduler) groups(t *runner, s *plan.Fused) [][]*fifo {
	var all [][]*fifo
	for _, to := range s.To {
		ln := o.fifo(int32(t.rank), to.To)
		p := o.l.links[ln.link].location
		i := slices.IndexFunc(all, func(g []*fifo) bool { return p <= InHost && o.l.links[g[0].link].location == p })
		if i >= 0 {
			all[i] = append(all[i], ln)
			continue
		}
		all = append(all, []*fifo{ln})
	}
	return all
}

// ready reports whether the next step of t can be taken.
func (o *scheduler) ready(t *runner) bool {
	s := &t.steps[t.next]
	for _, a := range s.Args {
		if a.Received() && len(o.fifo(a.From, int32(t.rank)).waiting) == 0 {
			return false
		}
	}
	for _, g := range o.groups(t, s) {
		if n := int(g[0].written) - o.l.Slots; n >= 0 && g[0].unread[n] > 0 {
			return false
		}
	}
	return true
}

// advance takes the next step of t.
func (o *scheduler) advance(t *runner) {
	s := t.steps[t.next]
	t.next++
	// A copy of what was sent is in the same launch. One level above, a rank would send its next chunk only after it has
	// received those of the level of the copy.
	if k := t.next - 2; k >= 0 && s.CopiesAfter(&t.steps[k]) {
		if t.rank == o.l.rank {
			st := step{Fused: s, lane: o.lane, track: t.track, ins: []use{{link: -1}}}
			o.steps, o.at = append(o.steps, st), append(o.at, t.latest)
		}
		return
	}
	groups := o.groups(t, &s)
	var before []int
	if t.latest >= 0 {
		before = append(before, t.latest)
	}
	t.latest = len(o.before)
	st := step{Fused: s, lane: o.lane, track: t.track}
	for _, a := range s.Args {
		u := use{link: -1}
		if a.Received() {
			ln := o.fifo(a.From, int32(t.rank))
			before = append(before, ln.senders[0])
			u, ln.waiting, ln.senders = ln.waiting[0], ln.waiting[1:], ln.senders[1:]
			lender := o.fifos[o.l.links[u.lender].Link]
			lender.unread[u.lenderN]--
			lender.readers[u.lenderN] = append(lender.readers[u.lenderN], t.latest)
		}
		st.ins = append(st.ins, u)
	}
	for _, g := range groups {
		first := g[0]
		if again := int(first.written) - o.l.Slots; again >= 0 {
			before = append(before, first.readers[again]...)
		}
		seen := o.l.links[first.link].seen
		seen[t.rank] = true
		out := output{use: use{link: first.link, n: first.sent, lender: first.link, lenderN: first.written}}
		for _, ln := range g {
			u := use{link: ln.link, n: ln.sent, lender: first.link, lenderN: first.written}
			ln.sent++
			ln.waiting, ln.senders = append(ln.waiting, u), append(ln.senders, t.latest)
			out.readers = append(out.readers, u)
			seen[o.l.links[ln.link].Dst] = true
		}
		first.written++
		first.unread, first.readers = append(first.unread, len(g)), append(first.readers, nil)
		st.outs = append(st.outs, out)
	}
	if t.rank == o.l.rank {
		o.steps, o.at = append(o.steps, st), append(o.at, t.latest)
	}
	o.before = append(o.before, before)
}

// setLevels gives the steps of the rank their levels.
func (o *scheduler) setLevels() {
	levels := plan.Levels(o.before)
	for i, k := range o.at {
		o.steps[i].level = levels[k]
	}
}
