// Package exec runs one rank's part of a verified plan.Plan over the links of
// a transport.Endpoint: the steps of all tracks, chunk by chunk, in the
// caller's goroutine, without allocating.
//
// It knows bytes, not types: what is reduced is said by a kernel.DType and a
// kernel.Op. It does not choose plans, open links or retry; package collective
// does, and is the only importer.
package exec

import (
	"fmt"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/transport"
)

// Links is what the programs of one communicator share: the rank's end of
// every link of the Layout.
type Links struct {
	rank    int
	size    int
	ep      transport.Endpoint
	inbound []inbound
	history [past]transport.Header // the latest calls, by number
}

type inbound struct {
	src int
	r   transport.Receiver
}

// NewLinks looks up the links of rank in ep, whose Layout is layout.
func NewLinks(ep transport.Endpoint, rank int, layout *transport.Layout) (*Links, error) {
	k := &Links{rank: rank, size: layout.Size, ep: ep}
	for _, l := range layout.Links {
		if l.Dst != rank {
			continue
		}
		r, err := ep.Receiver(l.Lane, l.Src)
		if err != nil {
			return nil, fmt.Errorf("exec: rank %d: lane %d from rank %d: %w", rank, l.Lane, l.Src, err)
		}
		k.inbound = append(k.inbound, inbound{l.Src, r})
	}
	return k, nil
}

// Program is a Plan bound to the links of one rank. One goroutine at a time
// may use it.
type Program struct {
	*Links
	plan   *plan.Plan
	lanes  []lane
	tracks []track
	call   *Call  // the call that runs now
	steps  uint64 // taken so far, over all calls: whether the call moves
}

// Call is one execution of a Program.
type Call struct {
	Header transport.Header // travels with every chunk; Count is in elements
	In     []byte           // Count elements, nil on ranks whose plan never reads it
	Out    []byte           // Count elements, nil on ranks whose plan never writes it; may be In
	DType  kernel.DType
	Op     kernel.Op
}

// lane is the part of the message that one lane carries in the current call.
type lane struct {
	from, upTo uint64 // share of the message, as plan.Cuts gives it
	start      int    // bytes into the message
	bytes      int
	chunk      int // bytes per chunk, the last may be shorter
	chunks     int
}

// track is the state of one plan.Track: which step of which chunk is next.
type track struct {
	lane  *lane
	steps []step
	tmp   []byte // one chunk of scratch, nil unless a step names plan.Tmp
	next  int    // index into steps
	chunk int
	got   transport.Header // of the chunk at hand; here, so that it does not move to the heap
}

// step is a plan.Step with its links looked up.
type step struct {
	plan.Step
	in  transport.Receiver
	out transport.Sender
}

// quantum is the grain, in bytes, of lane shares and chunks. It keeps every
// window aligned for the kernels and every element whole.
const quantum = 64

// minChunk is the smallest chunk, in bytes, into which a message is cut for the
// sake of pipelining. Below it the cost of a chunk outweighs the overlap.
const minChunk = 8 << 10

// Bind looks up the links that the rank of k needs for p. laneOf[i] is the lane
// of the Layout that lane i of the plan travels on.
func Bind(p *plan.Plan, k *Links, laneOf []int) (*Program, error) {
	if len(laneOf) != len(p.Lanes) {
		return nil, fmt.Errorf("exec: %d lane numbers for the %d lanes of plan %s", len(laneOf), len(p.Lanes), p.Name)
	}
	pr := &Program{Links: k, plan: p, lanes: make([]lane, len(p.Lanes))}
	cuts := p.Cuts()
	for i := range p.Lanes {
		pr.lanes[i].from, pr.lanes[i].upTo = cuts[i], cuts[i+1]
		for _, t := range p.Lanes[i].Tracks {
			if t.Rank != k.rank {
				continue
			}
			bound, err := pr.bindTrack(&pr.lanes[i], laneOf[i], t)
			if err != nil {
				return nil, fmt.Errorf("exec: plan %s, lane %d, rank %d: %w", p.Name, i, k.rank, err)
			}
			pr.tracks = append(pr.tracks, bound)
		}
	}
	return pr, nil
}

func (pr *Program) bindTrack(l *lane, number int, t plan.Track) (track, error) {
	bound := track{lane: l, steps: make([]step, len(t.Steps))}
	for i, s := range t.Steps {
		b := step{Step: s}
		var err error
		if s.From >= 0 {
			if b.in, err = pr.ep.Receiver(number, int(s.From)); err != nil {
				return track{}, fmt.Errorf("step %d: from rank %d: %w", i, s.From, err)
			}
		}
		if s.To >= 0 {
			if b.out, err = pr.ep.Sender(number, int(s.To)); err != nil {
				return track{}, fmt.Errorf("step %d: to rank %d: %w", i, s.To, err)
			}
		}
		if (s.Src == plan.Tmp || s.Dst == plan.Tmp) && bound.tmp == nil {
			bound.tmp = make([]byte, pr.ep.MaxPayload())
		}
		bound.steps[i] = b
	}
	return bound, nil
}

// Plan returns the plan that the program runs.
func (pr *Program) Plan() *plan.Plan { return pr.plan }

// reset points every lane and track at the start of the message of c.
func (pr *Program) reset(c *Call) {
	pr.call = c
	elem := c.DType.Size()
	count := int64(c.Header.Count)
	grain := int64(quantum / elem)
	slot := pr.ep.MaxPayload()
	for i := range pr.lanes {
		l := &pr.lanes[i]
		l.start = int(plan.CutAt(count, l.from, grain)) * elem
		l.bytes = int(plan.CutAt(count, l.upTo, grain))*elem - l.start
		l.chunk = chunkBytes(l.bytes, slot)
		l.chunks = (l.bytes + l.chunk - 1) / l.chunk
		if count == 0 && i == 0 {
			l.chunks = 1 // an empty message still meets everybody
		}
	}
	for i := range pr.tracks {
		pr.tracks[i].next, pr.tracks[i].chunk = 0, 0
	}
}

// chunkBytes cuts a lane's bytes into four chunks, or more where they would not
// fit a slot, so that the ranks
// of a tree overlap, unless the chunks became smaller than minChunk.
func chunkBytes(bytes, slot int) int {
	c := ((bytes+3)/4 + quantum - 1) &^ (quantum - 1)
	return min(max(c, minChunk), slot)
}
