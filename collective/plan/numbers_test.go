package plan

import "fmt"

// numbers runs a plan on float32 sums, one chunk of one element per lane: a part, or the message where there are none,
// has an element for every lane that shares it. It reads steps as the executor does, independently of Verify.
type numbers struct {
	p       *Plan
	count   int // elements of a part
	in, out [][]float32
	links   map[Link][]float32
	tmp     map[*Track]float32
}

func newNumbers(p *Plan, inPlace bool) *numbers {
	r := &numbers{p: p, links: make(map[Link][]float32), tmp: make(map[*Track]float32)}
	parts := 1
	if p.Kind.HasParts() {
		parts = p.Size
	}
	for _, l := range p.Lanes {
		if l.Part == 0 {
			r.count++
		}
	}
	for v := range p.Size {
		in, out := make([]float32, parts*r.count), make([]float32, parts*r.count)
		if inPlace {
			out = in
		}
		switch own := v * r.count; p.Kind {
		case AllGather, Gather:
			in = in[:r.count]
			if inPlace {
				in = out[own : own+r.count]
			}
		case ReduceScatter, Scatter:
			out = out[:r.count]
			if inPlace {
				out = in[own : own+r.count]
			}
		}
		r.in, r.out = append(r.in, in), append(r.out, out)
	}
	return r
}

// run lets every track go on until none can.
func (r *numbers) run() error {
	pc := make(map[*Track]int)
	for moved := true; moved; {
		moved = false
		place := 0
		for i := range r.p.Lanes {
			l := &r.p.Lanes[i]
			if i > 0 && l.Part != r.p.Lanes[i-1].Part {
				place = 0
			}
			for t := range l.Tracks {
				track := &l.Tracks[t]
				for pc[track] < len(track.Steps) && r.step(i, place, track, track.Steps[pc[track]]) {
					pc[track]++
					moved = true
				}
			}
			place++
		}
	}
	for _, l := range r.p.Lanes {
		for t := range l.Tracks {
			if track := &l.Tracks[t]; pc[track] < len(track.Steps) {
				return fmt.Errorf("rank %d never takes %q", track.Rank, track.Steps[pc[track]])
			}
		}
	}
	return nil
}

// step takes s if the chunk that it receives is there.
func (r *numbers) step(lane, place int, t *Track, s Step) bool {
	var got float32
	if s.Op.Receives() {
		from := Link{lane, int(s.From), t.Rank}
		if len(r.links[from]) == 0 {
			return false
		}
		got, r.links[from] = r.links[from][0], r.links[from][1:]
	}
	in, out := r.p.Kind.Parts(r.p.Lanes[lane].Part, t.Rank, s)
	cell := func(b Buf) *float32 {
		switch b {
		case In:
			return &r.in[t.Rank][in*r.count+place]
		case Out:
			return &r.out[t.Rank][out*r.count+place]
		}
		tmp := r.tmp[t]
		return &tmp
	}
	value := got
	switch s.Op {
	case Send, Copy:
		value = *cell(s.Src)
	case RecvReduce, RecvReduceSend, RecvReduceCopySend:
		value = *cell(s.Src) + got
	case LocalReduce:
		value = *cell(s.Dst) + *cell(s.Src)
	}
	switch {
	case s.Dst == Tmp:
		r.tmp[t] = value
	case s.Op.Writes():
		*cell(s.Dst) = value
	}
	if s.Op.Sends() {
		to := Link{lane, t.Rank, int(s.To)}
		r.links[to] = append(r.links[to], value)
	}
	return true
}

// checkNumbers runs p on inputs that are all different, and compares every rank's result with that of the kind.
func checkNumbers(p *Plan, inPlace bool) error {
	r := newNumbers(p, inPlace)
	give := func(rank, i int) float32 { return float32((rank + 1) * (1 + 7*i)) } // sums are exact
	for v := range p.Size {
		for i := range r.in[v] {
			r.in[v][i] = give(v, i)
		}
	}
	if err := r.run(); err != nil {
		return err
	}
	all := func(i int) float32 { // the sum over the ranks
		return give(0, i) * float32(p.Size*(p.Size+1)/2)
	}
	for v := range p.Size {
		if (p.Kind == Reduce || p.Kind == Gather) && v != p.Root {
			continue
		}
		for i, got := range r.out[v] {
			part, at := i/r.count, i%r.count
			var want float32
			switch p.Kind {
			case AllReduce, Barrier, Reduce:
				want = all(i)
			case Broadcast:
				want = give(p.Root, i)
			case AllGather, Gather:
				want = give(part, at)
			case ReduceScatter:
				want = all(v*r.count + i)
			case Scatter:
				want = give(p.Root, v*r.count+i)
			case AllToAll:
				want = give(part, v*r.count+at)
			}
			if got != want {
				return fmt.Errorf("element %d of rank %d is %v, want %v", i, v, got, want)
			}
		}
	}
	return nil
}
