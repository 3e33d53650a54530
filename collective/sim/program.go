package sim

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
)

// program is a Plan with its FIFOs looked up, for messages of one size. Operations that
// follow each other with the same plan and size share it.
type program struct {
	plan   *plan.Plan
	tracks []track
	fifos  []fifo
	ofRank [][]int32 // tracks with anything to do
}

// track is a plan.Track.
type track struct {
	rank   int32
	chunks int32
	chunk  int64 // bytes
	last   int64 // bytes of the last chunk
	steps  []step
}

// step is a plan.Step. FIFOs are numbered within the program, -1 for none.
type step struct {
	work    work
	again   bool // sends what the step before has written, to one more rank
	joins   bool // adds to what the step before has stored, or moves it, in one pass with it
	in, out int32
	hands   bool    // what it sends to the kernel, which sends it on: over a socket
	sockets int32   // ends of sockets that it moves a chunk through
	perByte float64 // microseconds to read what it receives, 0 where that is part of sending it
}

// work is what a step does with its bytes besides sending them.
type work uint8

const (
	nothing work = iota
	reduces
	copies
)

// fifo is one link of a lane.
type fifo struct {
	route            int32
	sender, receiver int32 // tracks, -1 for none
}

// newProgram looks up the links of p on w for a message of so many bytes, all
// parts together.
func newProgram(p *plan.Plan, bytes int64, w *network) (*program, error) {
	pr := &program{plan: p, ofRank: make([][]int32, p.Size)}
	part := bytes
	if p.Kind.HasParts() {
		part = (bytes + int64(p.Size) - 1) / int64(p.Size)
	}
	cuts := p.Cuts()
	_, widest := plan.Widths(cuts)
	for i := range p.Lanes {
		share := plan.CutAt(part, cuts[i+1], quantum) - plan.CutAt(part, cuts[i], quantum)
		t := track{chunk: w.m.chunk(share, cuts[i+1]-cuts[i], widest)}
		if share > 0 {
			t.chunks = int32((share + t.chunk - 1) / t.chunk)
			t.last = share - int64(t.chunks-1)*t.chunk
		} else if bytes == 0 && i == 0 {
			t.chunks = 1 // an empty message still meets everybody
		}
		if err := pr.addLane(&p.Lanes[i], t, w); err != nil {
			return nil, fmt.Errorf("sim: plan %s, lane %d: %w", p.Name, i, err)
		}
	}
	return pr, nil
}

// addLane adds the tracks of a lane, which are like t.
func (pr *program) addLane(l *plan.Lane, t track, w *network) error {
	if t.chunks == 0 {
		return nil
	}
	fifos, ends := l.FIFOs()
	firstFIFO, firstTrack := int32(len(pr.fifos)), int32(len(pr.tracks))
	numbered := func(i, first int32) int32 {
		if i < 0 {
			return i
		}
		return first + i
	}
	for _, f := range fifos {
		r, err := w.route(int(f.Src), int(f.Dst))
		if err != nil {
			return err
		}
		pr.fifos = append(pr.fifos, fifo{r, numbered(f.Sender, firstTrack), numbered(f.Receiver, firstTrack)})
	}
	for k, from := range l.Tracks {
		e := ends[k]
		t.rank, t.steps = int32(from.Rank), make([]step, len(from.Steps))
		pr.ofRank[t.rank] = append(pr.ofRank[t.rank], int32(len(pr.tracks)))
		for i, s := range from.Steps {
			b := step{in: numbered(e[i].In, firstFIFO), out: numbered(e[i].Out, firstFIFO)}
			switch {
			case s.Op.Reduces():
				b.work = reduces
			case s.Op.Writes():
				b.work = copies
			}
			b.joins = w.m.InPlace && i > 0 && joins(from.Steps[i-1], s)
			if a := max(i-1, 0); b.joins && t.steps[a].work == copies {
				t.steps[a].work = nothing // the sum begins with what it receives
			}
			if b.joins && b.work == copies {
				b.work = nothing
			}
			if b.in >= 0 {
				if w.inPlace(s.From, t.rank) {
					b.perByte = w.resources[w.all[pr.fifos[b.in].route].via[0]].perByte
				}
				if w.sockets(s.From, t.rank) {
					b.sockets++
				}
			}
			if b.out >= 0 {
				b.again = i > 0 && pr.plan.Kind.SendsAgain(from.Steps[i-1], s) &&
					w.inPlace(t.rank, s.To) && w.inPlace(t.rank, from.Steps[i-1].To) &&
					len(w.all[pr.fifos[b.out].route].via) == 1 // a port counts what every receiver reads
				if w.sockets(t.rank, s.To) {
					b.sockets++
					b.hands = true
				}
			}
			t.steps[i] = b
		}
		pr.tracks = append(pr.tracks, t)
	}
	return nil
}

// joins reports whether step b adds to the value that step a, before it, has
// stored and not sent, or puts it where it belongs.
func joins(a, b plan.Step) bool {
	switch {
	case a.Op.Sends():
		return false
	case b.Op == plan.LocalReduce:
		return a.Dst == b.Dst
	}
	return b.Op.Reduces() && a.Dst == b.Src || b.Op == plan.Copy && a.Dst == plan.Tmp && b.Src == plan.Tmp
}
