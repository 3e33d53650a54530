// Package engine runs one rank's part of verified plans over the links of a
// transport.Endpoint: the steps of all tracks, chunk by chunk, in the caller's
// goroutine, without allocating. Several calls may be under way; they are done
// in the order in which they began.
//
// It handles bytes, not types: a kernel.DType and a kernel.Op define a reduction. It opens its end of a link when a
// plan or a message first needs it. It does not choose plans, and does not retry.
package engine

import (
	"fmt"
	"hash/fnv"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

// Program is a Plan bound to the links of one rank.
type Program struct {
	e      *Engine
	plan   *plan.Plan
	tracks []track
	wide   bool // every chunk goes from buffer to buffer: see wide.go
	passes bool // whether a rank passes on received chunks
	digest uint64
}

// track is the state of one plan.Track: which step of which chunk of which
// call is next.
type track struct {
	e     *Engine
	index int // the number of the track in its lane
	share plan.Share
	steps []step
	tmp   []byte // one chunk of scratch, nil unless a step names plan.Tmp
	got   call.Header
	head  call.Header // the header of the chunks of the call worked at
	wide  bool        // these may be longer than a slot

	call      *Call  // nil when there is none to work at
	seq       uint64 // the number of the call worked at last
	next      int    // the index of the next of steps
	chunk     int    // the number of the chunk at work
	plan.Span        // of the lane in call
	whole     plan.Span
	of        spanOf // what whole was computed for
	part      int    // bytes of one part of the message
	moved     int    // bytes of the step at work, where its chunk moves bit by bit
}

// spanOf is what the plan.Span of a track depends on.
type spanOf struct {
	count  int64
	elem   int
	chunks plan.Chunks
}

// Bind opens the links that the rank of e needs for p. Lane i of the plan travels on lane
// first+i of the Layout. With inOrder, steps combine their operands in the order of the ranks.
func Bind(p *plan.Plan, e *Engine, first int, inOrder bool) (*Program, error) {
	h := fnv.New64a()
	fmt.Fprint(h, p.Digest(), first)
	pr := &Program{e: e, plan: p, digest: h.Sum64()}
	pr.wide, pr.passes = p.OnlyMoves()
	fuse := p.Fuse
	if inOrder {
		sorted, err := p.InOrder()
		if err != nil {
			return nil, err
		}
		fuse = func(lane, track int) []plan.Fused { return sorted[lane][track] }
	}
	for i, share := range p.Shares() {
		l := &p.Lanes[i]
		begin := len(pr.tracks)
		for j, t := range l.Tracks {
			if t.Rank != e.rank {
				continue
			}
			steps, err := e.compile(fuse(i, j), first+i)
			if err != nil {
				return nil, fmt.Errorf("engine: plan %s, lane %d, rank %d: %w", p.Name, i, e.rank, err)
			}
			pr.add(track{e: e, index: j, share: share, steps: steps})
		}
		markSteps(p, i, pr.tracks[begin:])
	}
	return pr, nil
}

// add takes in a track, with the scratch that its steps need.
func (pr *Program) add(t track) {
	e := pr.e
	for i := range t.steps {
		s := &t.steps[i]
		if s.Names(plan.Tmp) && t.tmp == nil {
			t.tmp = make([]byte, e.slotBytes)
		}
		for len(e.windows) < len(s.operands) {
			e.windows, e.pieces = append(e.windows, nil), append(e.pieces, nil)
		}
	}
	pr.tracks = append(pr.tracks, t)
}

// Straight reports whether every part goes from the rank that gives it to the one that gets it, in a kind without
// reductions.
func (pr *Program) Straight() bool { return pr.wide }

// Plan returns the plan that the program runs.
func (pr *Program) Plan() *plan.Plan { return pr.plan }

// begin points t at the start of the message of c.
func (t *track) begin(c *Call) {
	e := t.e
	elem := c.Size()
	count := int64(c.ID.Count)
	if len(c.Begins) > 0 && len(c.OutAt) == 0 {
		count = int64(c.Begins[t.share.Part+1] - c.Begins[t.share.Part])
	}
	t.call, t.seq, t.next, t.chunk = c, c.ID.Seq, 0, 0
	t.part = int(count) * elem
	if of := (spanOf{count, elem, c.Chunks}); t.of != of {
		t.of, t.whole = of, t.share.Span(count, elem, c.Chunks, e.slotBytes)
	}
	t.Span = t.whole
	t.head, t.wide = c.header, c.wide
	if c.ID.CountsAtRoot() {
		t.head.Count = uint64(count)
		t.wide = c.wide && e.lendsOwn(c.ID.Kind, count*int64(elem))
		if count == 0 {
			t.Chunks = 1 // an empty part still reaches its rank
		}
	}
	if t.wide {
		t.Cut(e.wideChunk(c.program.passes))
	}
	if len(c.OutAt) > 0 {
		t.vary()
	}
	t.place()
}

// vary lays out the parts of a call of which each has its own length.
func (t *track) vary() {
	c, e := t.call, t.e
	elem := c.DType.Size()
	t.Chunks = 0
	for i := range t.steps {
		s := &t.steps[i]
		at := c.Begins
		_, part, _ := s.value()
		if s.Dst == plan.Out {
			at = c.OutAt
		}
		count := int64(at[part+1] - at[part])
		s.count, s.Span = uint64(count), t.share.Span(count, elem, c.Chunks, e.slotBytes)
		if s.wide = c.wide && e.lendsOwn(c.ID.Kind, count*int64(elem)); s.wide {
			s.Cut(e.wideChunk(c.program.passes))
		}
		t.Chunks = max(t.Chunks, s.Chunks)
	}
}

// turn prepares t for the chunk of s, after vary. It reports false if the part of s has no such chunk.
func (t *track) turn(s *step) bool {
	chunks := t.Chunks
	t.Span, t.head.Count, t.wide = s.Span, s.count, s.wide
	t.Chunks = chunks
	return t.chunk < s.Chunks
}
