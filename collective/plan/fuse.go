package plan

import "slices"

// Fused is the work of a track on one chunk in a single step: its operands, combined from left to right, are the value;
// the value goes to a buffer, to other ranks, or to both. It is one Step, or several that follow each other, with fewer
// passes over memory: a rank with three children reads all their chunks at once, and a chunk for three children is made
// once. It waits until all its links are ready, and has read all operands before it writes. This is what ranks run, in
// host memory and on devices, and what Verify proves.
type Fused struct {
	Args    []Operand // operands to combine, at least one
	To      []Target  // the ranks that the value is sent to
	Dst     Buf       // None: the value is only sent
	DstStep int32     // the index of the Step that stores to Dst
	DstPart int       // the part of Dst it goes to
}

// Operand is a chunk that another rank sends, or one of a buffer.
type Operand struct {
	From int32 // the rank; -1: a buffer
	Step int32 // the index of the Step that receives or reads it
	Buf  Buf
	Part int // of Buf
}

// Target is a rank that a value is sent to.
type Target struct {
	To   int32 // the rank
	Step int32 // the index of the Step that sends
}

// Received reports whether a comes from another rank.
func (a Operand) Received() bool { return a.From >= 0 }

// is reports whether a is the chunk of part of b.
func (a Operand) is(b Buf, part int) bool { return !a.Received() && a.Buf == b && a.Part == part }

// IsBuffer reports whether the value of s is the chunk of one buffer.
func (s *Fused) IsBuffer() bool { return len(s.Args) == 1 && !s.Args[0].Received() }

// CopiesAfter reports whether s copies a buffer and sends nothing, after a step that only sends a buffer: neither needs
// the other.
func (s *Fused) CopiesAfter(before *Fused) bool {
	return before.IsBuffer() && before.Dst == None && s.IsBuffer() && len(s.To) == 0
}

// Names reports whether s reads or writes buffer b.
func (s *Fused) Names(b Buf) bool {
	return s.Dst == b || slices.ContainsFunc(s.Args, func(a Operand) bool { return !a.Received() && a.Buf == b })
}

// Fuse returns the fused steps of a track of p, which must be valid.
func (p *Plan) Fuse(lane, track int) []Fused {
	t := &p.Lanes[lane].Tracks[track]
	var all []Fused
	for i := range t.Steps {
		s := p.single(lane, t, i)
		if n := len(all); n == 0 || !all[n-1].merge(&s, t.Steps[i+1:]) {
			all = append(all, s)
		}
	}
	return all
}

// single returns step i of a track as it stands.
func (p *Plan) single(lane int, t *Track, i int) Fused {
	from, index := t.Steps[i], int32(i)
	in, out := p.Kind.Parts(p.Lanes[lane].Part, t.Rank, from)
	parts := [...]int{None: 0, In: in, Out: out, Tmp: 0}
	s := Fused{Args: make([]Operand, 0, 2), Dst: from.Dst, DstStep: index, DstPart: parts[from.Dst]}
	u := opUses[from.Op]
	if u.acc {
		s.Args = append(s.Args, Operand{From: -1, Step: index, Buf: from.Dst, Part: parts[from.Dst]})
	}
	if u.src {
		s.Args = append(s.Args, Operand{From: -1, Step: index, Buf: from.Src, Part: parts[from.Src]})
	}
	if u.from {
		s.Args = append(s.Args, Operand{From: from.From, Step: index})
	}
	if u.to {
		s.To = []Target{{from.To, index}}
	}
	return s
}

// merge makes next, which follows s, a part of s where that changes nothing but the number of passes over memory, and
// reports whether it did; rest are the steps of the plan after next. A fused step receives from a rank once, and sends
// to it once. A value in Tmp that no later step reads is not stored.
func (s *Fused) merge(next *Fused, rest []Step) bool {
	again := func(a Operand) bool {
		return a.Received() && slices.ContainsFunc(s.Args, func(b Operand) bool { return b.From == a.From })
	}
	twice := func(t Target) bool {
		return slices.ContainsFunc(s.To, func(u Target) bool { return u.To == t.To })
	}
	first := next.Args[0]
	follows := s.Dst != None && first.is(s.Dst, s.DstPart) // next reads the value of s
	kept := s.Dst != Tmp || reads(rest, Tmp)
	switch {
	case slices.ContainsFunc(next.Args, again) || slices.ContainsFunc(next.To, twice):
		return false
	case follows && len(next.Args) == 2 && !next.Args[1].is(s.Dst, s.DstPart) && len(s.To) == 0 &&
		(next.Dst == s.Dst || !kept):
		// The value is combined with one more.
		s.Args = append(s.Args, next.Args[1])
		s.To, s.Dst, s.DstStep, s.DstPart = next.To, next.Dst, next.DstStep, next.DstPart
	case follows && next.IsBuffer() && next.Dst == None:
		// The value is also sent, or only sent.
		s.To = append(s.To, next.To...)
		if !kept {
			s.Dst = None
		}
	case follows && next.IsBuffer() && len(s.To) == 0 && !kept:
		// The value belongs elsewhere.
		s.Dst, s.DstStep, s.DstPart = next.Dst, next.DstStep, next.DstPart
	case next.IsBuffer() && next.Dst == None && s.IsBuffer() && s.Dst == None && s.Args[0].is(first.Buf, first.Part):
		// The same chunk of a buffer goes to one more rank.
		s.To = append(s.To, next.To...)
	default:
		return false
	}
	return true
}

// reads reports whether any of the steps reads b before one overwrites it.
func reads(steps []Step, b Buf) bool {
	for _, s := range steps {
		if s.Src == b || opUses[s.Op].acc && s.Dst == b {
			return true
		}
		if s.Dst == b {
			return false
		}
	}
	return false
}

// OnlyMoves reports whether all that ranks send, in every lane of p, lies in In or Out, and all that they receive goes
// to Out and nowhere else. Where ranks can read each other's memory every chunk then moves by one copy, from where it
// lies to where it belongs, and need not fit a slot. A rank that cannot lend its memory, since it is in pieces or used
// again, sends such a chunk bit by bit. In passes it reports whether a rank sends and receives in one track.
func (p *Plan) OnlyMoves() (only, passes bool) {
	if p.Kind.adds() {
		return false, false
	}
	for _, l := range p.Lanes {
		for _, t := range l.Tracks {
			sends, receives := false, false
			for _, s := range t.Steps {
				passed := receives && s.Op == Send && s.Src == Out // fused, it sends a received chunk
				if passed || s.Src == Tmp || s.Dst == Tmp || s.Op != Send && s.Op != Recv && s.Op != Copy {
					return false, false
				}
				sends, receives = sends || s.Op == Send, receives || s.Op == Recv
			}
			passes = passes || sends && receives
		}
	}
	return true, passes
}
