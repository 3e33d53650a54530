package plan

import (
	"fmt"
	"slices"
)

// This file turns the steps of a plan's track into fewer ones that do the same with fewer passes over memory: a rank
// with three children reads all their chunks at once, and a chunk for three children is made once. Packages engine and
// device run the steps of Fuse. It knows neither links nor memory.

// Fused is the work of a track on one chunk in a single step: its operands, combined from left to right, are the value;
// the value goes to a buffer, to other ranks, or to both. Every Step is one, and some that follow each other
// become a single one. A step waits until all its links are ready; as chunk j of a plan never waits for a later chunk,
// that cannot get a verified plan stuck.
type Fused struct {
	Args    []Operand // operands to combine, at least one
	Dst     Buf       // None: the value is only sent
	DstPart int       // the part of Dst it goes to
	To      []int32   // the ranks it is sent to
	Final   bool      // nothing is stored in Dst's chunk later
}

// Operand is a chunk that another rank sends, or one of a buffer.
type Operand struct {
	From int32 // the rank; -1: a buffer
	Buf  Buf
	Part int // of Buf
}

// Received reports whether a comes from another rank.
func (a Operand) Received() bool { return a.From >= 0 }

// IsBuffer reports whether the value of s is the chunk of one buffer.
func (s *Fused) IsBuffer() bool { return len(s.Args) == 1 && !s.Args[0].Received() }

// Names reports whether s reads or writes buffer b.
func (s *Fused) Names(b Buf) bool {
	return s.Dst == b || slices.ContainsFunc(s.Args, func(a Operand) bool { return !a.Received() && a.Buf == b })
}

// Fuse returns the steps of track t of a lane of p that carries part. An error
// is for a plan that Verify would reject.
func Fuse(p *Plan, part int, t Track) ([]Fused, error) {
	var all []Fused
	for i, from := range t.Steps {
		s, err := single(p.Kind, part, t.Rank, from)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		if n := len(all); n == 0 || !mergeSteps(&all[n-1], &s, t.Steps[i+1:]) {
			all = append(all, s)
		}
	}
	for i := range all {
		all[i].Final = !slices.ContainsFunc(all[i+1:],
			func(s Fused) bool { return s.Dst == all[i].Dst && s.DstPart == all[i].DstPart })
	}
	return all, nil
}

// single turns one step of the plan, as it stands, into one of ours.
func single(kind Kind, part, rank int, from Step) (s Fused, err error) {
	in := Operand{From: from.From}
	if from.To >= 0 {
		s.To = []int32{from.To}
	}
	inPart, outPart := kind.Parts(part, rank, from)
	partOf := func(b Buf) int {
		switch b {
		case In:
			return inPart
		case Out:
			return outPart
		}
		return 0
	}
	src := Operand{From: -1, Buf: from.Src, Part: partOf(from.Src)}
	switch from.Op {
	case Send, Copy:
		s.Args = []Operand{src}
	case Recv, RecvCopySend:
		s.Args = []Operand{in}
	case RecvReduce, RecvReduceSend, RecvReduceCopySend:
		s.Args = []Operand{src, in}
	case LocalReduce:
		s.Args = []Operand{{From: -1, Buf: from.Dst, Part: partOf(from.Dst)}, src}
	default:
		return s, fmt.Errorf("unknown step %d, which Verify rejects", from.Op)
	}
	s.Dst, s.DstPart = from.Dst, partOf(from.Dst)
	return s, nil
}

// mergeSteps makes s part of the step before it, where that changes nothing but the
// number of passes over memory; rest are the steps of the plan after s. One pass takes or
// sends one chunk of a link.
func mergeSteps(before, s *Fused, rest []Step) bool {
	again := func(a Operand) bool { return a.Received() && slices.Contains(before.Args, a) }
	switch {
	case slices.ContainsFunc(s.Args, again) || len(s.To) > 0 && slices.Contains(before.To, s.To[0]):
		return false
	case before.Dst != None && len(before.To) == 0 && len(s.Args) == 2 && s.Args[0].is(before.Dst, before.DstPart):
		// The value so far is combined with one more.
		if s.Dst != before.Dst && (before.Dst != Tmp || reads(rest, Tmp)) {
			return false
		}
		before.Args = append(before.Args, s.Args[1])
		before.Dst, before.DstPart, before.To = s.Dst, s.DstPart, s.To
		return true
	case s.IsBuffer() && s.Dst == None && before.Dst != None && s.Args[0].is(before.Dst, before.DstPart):
		// The value is also sent, or only sent.
		before.To = append(before.To, s.To...)
		if before.Dst == Tmp && len(before.Args) > 1 && !reads(rest, Tmp) {
			before.Dst = None
		}
		return true
	case s.IsBuffer() && s.Dst != None && before.Dst == Tmp && len(before.To) == 0 &&
		s.Args[0].is(Tmp, 0) && !reads(rest, Tmp):
		// The value belongs elsewhere.
		before.Dst, before.DstPart = s.Dst, s.DstPart
		return true
	case s.IsBuffer() && s.Dst == None && before.IsBuffer() && before.Dst == None && s.Args[0] == before.Args[0]:
		// The same chunk of a buffer goes to one more rank.
		before.To = append(before.To, s.To...)
		return true
	}
	return false
}

func (a Operand) is(b Buf, part int) bool { return !a.Received() && a.Buf == b && a.Part == part }

// reads reports whether any of the steps reads b before one overwrites it.
func reads(steps []Step, b Buf) bool {
	for _, s := range steps {
		if s.Src == b || s.Op == LocalReduce && s.Dst == b {
			return true
		}
		if s.Dst == b {
			return false
		}
	}
	return false
}
