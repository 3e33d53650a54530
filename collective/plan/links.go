package plan

import (
	"cmp"
	"slices"
)

// Link is one FIFO that a Plan uses: chunks of one lane from rank Src to rank
// Dst.
type Link struct {
	Lane, Src, Dst int
}

// Links returns the FIFOs that p uses, each once, sorted by lane, source and
// destination.
func (p *Plan) Links() []Link {
	var out []Link
	for i := range p.Lanes {
		fifos, _ := p.Lanes[i].FIFOs()
		for _, f := range fifos {
			out = append(out, Link{i, int(f.Src), int(f.Dst)})
		}
	}
	slices.SortFunc(out, func(a, b Link) int {
		return cmp.Or(a.Lane-b.Lane, a.Src-b.Src, a.Dst-b.Dst)
	})
	return out
}

// FIFO is a link of a lane with the first tracks that use its ends, -1 where none does.
type FIFO struct {
	Src, Dst         int32 // ranks
	Sender, Receiver int32 // tracks
}

// Ends is which FIFOs of its lane a step receives from and sends to, -1 for none.
type Ends struct{ In, Out int32 }

// FIFOs returns the FIFOs of a lane in the order of their first use, and by track those that its steps use.
func (l *Lane) FIFOs() (fifos []FIFO, ends [][]Ends) {
	byEnds := make(map[[2]int32]int32, len(l.Tracks))
	index := func(src, dst int32) int32 {
		i, known := byEnds[[2]int32{src, dst}]
		if !known {
			i = int32(len(fifos))
			byEnds[[2]int32{src, dst}] = i
			fifos = append(fifos, FIFO{src, dst, -1, -1})
		}
		return i
	}
	first := func(owner *int32, track int) {
		if *owner < 0 {
			*owner = int32(track)
		}
	}
	ends = make([][]Ends, len(l.Tracks))
	for t, tr := range l.Tracks {
		ends[t] = make([]Ends, len(tr.Steps))
		for i, s := range tr.Steps {
			e := Ends{-1, -1}
			if s.Op.Receives() {
				e.In = index(s.From, int32(tr.Rank))
				first(&fifos[e.In].Receiver, t)
			}
			if s.Op.Sends() {
				e.Out = index(int32(tr.Rank), s.To)
				first(&fifos[e.Out].Sender, t)
			}
			ends[t][i] = e
		}
	}
	return fifos, ends
}

// Final reports whether a rank stores nothing in Out, in the chunk of a lane, after a step of one of its tracks.
func (p *Plan) Final(lane, track, step int) bool {
	l := &p.Lanes[lane]
	done := l.before(track, step+1)
	stores := func(s Step) bool { return s.Dst == Out }
	for i, t := range l.Tracks {
		if t.Rank == l.Tracks[track].Rank && slices.ContainsFunc(t.Steps[done[i]:], stores) {
			return false
		}
	}
	return true
}

// before returns, by track, the number of steps that are certainly done with a chunk once the first steps of track are:
// by the order of a track, and by chunks that were delivered.
func (l *Lane) before(track, steps int) []int {
	fifos, ends := l.FIFOs()
	done := make([]int, len(l.Tracks))
	var finish func(t, n int)
	finish = func(t, n int) {
		for done[t] < n {
			f := ends[t][done[t]].In
			done[t]++
			if f < 0 {
				continue
			}
			chunk := 0 // of those that t has received from f
			for _, e := range ends[t][:done[t]] {
				if e.In == f {
					chunk++
				}
			}
			sender := fifos[f].Sender
			for i, e := range ends[sender] {
				if e.Out == f {
					if chunk--; chunk == 0 {
						finish(int(sender), i+1)
					}
				}
			}
		}
	}
	finish(track, steps)
	return done
}
