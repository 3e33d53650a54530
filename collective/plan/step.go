package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// uses marks the fields of a Step that an Op uses.
type uses struct {
	src, dst, from, to bool
	acc                bool // dst is read, too
}

var opUses = [...]uses{
	Send:               {src: true, to: true},
	Recv:               {dst: true, from: true},
	RecvReduce:         {src: true, dst: true, from: true},
	RecvReduceSend:     {src: true, from: true, to: true},
	RecvReduceCopySend: {src: true, dst: true, from: true, to: true},
	RecvCopySend:       {dst: true, from: true, to: true},
	Copy:               {src: true, dst: true},
	LocalReduce:        {src: true, dst: true, acc: true},
}

var opNames = [...]string{Send: "Send", Recv: "Recv", RecvReduce: "RecvReduce", RecvReduceSend: "RecvReduceSend",
	RecvReduceCopySend: "RecvReduceCopySend", RecvCopySend: "RecvCopySend", Copy: "Copy", LocalReduce: "Reduce"}

var kindNames = [...]string{AllReduce: "allreduce", Reduce: "reduce", Broadcast: "broadcast", Barrier: "barrier",
	AllGather: "allgather", ReduceScatter: "reducescatter", Gather: "gather", Scatter: "scatter", AllToAll: "alltoall",
	Scan: "scan", ExScan: "exscan"}

var bufNames = [...]string{None: "none", In: "in", Out: "out", Tmp: "tmp"}

func (o Op) valid() bool   { return o >= Send && int(o) < len(opUses) }
func (k Kind) valid() bool { return k >= AllReduce && k < kindEnd }
func (b Buf) valid() bool  { return int(b) < len(bufNames) }

// Reads reports whether o reads the local buffer Src.
func (o Op) Reads() bool { return o.valid() && opUses[o].src }

// Writes reports whether o writes the local buffer Dst.
func (o Op) Writes() bool { return o.valid() && opUses[o].dst }

// Receives reports whether o takes a window from From.
func (o Op) Receives() bool { return o.valid() && opUses[o].from }

// Sends reports whether o fills a window for To.
func (o Op) Sends() bool { return o.valid() && opUses[o].to }

// Reduces reports whether o combines two values: Src with the window received,
// or with Dst.
func (o Op) Reduces() bool { return o.Reads() && (o.Receives() || opUses[o].acc) }

// HasRoot reports whether collectives of kind k name a root.
func (k Kind) HasRoot() bool {
	return k == Reduce || k == Broadcast || k == Gather || k == Scatter
}

// HasParts reports whether the message of a collective of kind k is one equal
// part per rank.
func (k Kind) HasParts() bool { return k >= AllGather && k <= AllToAll }

// Scans reports whether every rank gets a reduction of the inputs of other ranks.
func (k Kind) Scans() bool { return k == Scan || k == ExScan }

// lanePerPart reports whether every lane of kind k carries one part.
func (k Kind) lanePerPart() bool { return k.HasParts() && k != AllToAll }

// bothWays reports whether collectives of kind k gather first and hand out then.
func (k Kind) bothWays() bool { return k == AllReduce || k == Barrier }

// adds reports whether collectives of kind k are reductions.
func (k Kind) adds() bool { return k.bothWays() || k == Reduce || k == ReduceScatter }

// spreads reports whether kind k is, for a part or for the message, a reduction to or a broadcast from one rank, or
// both: it can run over any spanning tree. The others go from one rank to another.
func (k Kind) spreads() bool { return k.valid() && k < Gather }

// Parts returns the part of the buffer In and the part of Out that step s of rank touches in a lane whose Part is lane.
// Where In or Out is a single part, or the message has none, the answer is 0; for a step that does not name the buffer
// it means nothing.
//
//	AllGather, Gather       In is one part   Out: the lane's part
//	ReduceScatter, Scatter  In: the lane's   Out is one part
//	AllToAll                In: the part of the rank sent to, Out: of the rank
//	                        received from; a Copy takes the rank's own for both
//
// Within the part the step touches the chunk of the lane's share: element
// part*count + CutAt(count, cut - Part<<32, quantum) is where the share begins,
// count being the elements of a part and cut the lane's value of Cuts.
func (k Kind) Parts(lane, rank int, s Step) (in, out int) {
	switch k {
	case AllGather, Gather:
		return 0, lane
	case ReduceScatter, Scatter:
		return lane, 0
	case AllToAll:
		in, out = rank, rank
		if s.To >= 0 {
			in = int(s.To)
		}
		if s.From >= 0 {
			out = int(s.From)
		}
		return in, out
	}
	return 0, 0
}

// SendsAgain reports whether step b, which stands behind a in a track of a
// collective of kind k, sends to another rank the very bytes that a sends. A
// transport whose receivers read in place can write them once for all such
// neighbors.
func (k Kind) SendsAgain(a, b Step) bool {
	return a.Op == Send && b.Op == Send && a.Src == b.Src && a.To != b.To && (k != AllToAll || a.Src != In)
}

// role describes the part of the ranks in the work of a lane on its share: the only rank that has In and the only one
// that has Out, -1 where all have. All values of In that there are become the one of every Out.
type role struct {
	in, out  int
	exchange bool // AllToAll: no value meets another
}

// role returns the role of a lane: that of an AllGather is a Broadcast from the
// rank whose part it is, that of a ReduceScatter a Reduce to it.
func (p *Plan) role(lane int) role {
	part := p.Lanes[lane].Part
	switch p.Kind {
	case Reduce:
		return role{in: -1, out: p.Root}
	case Broadcast:
		return role{in: p.Root, out: -1}
	case AllGather:
		return role{in: part, out: -1}
	case ReduceScatter:
		return role{in: -1, out: part}
	case Gather:
		return role{in: part, out: p.Root}
	case Scatter:
		return role{in: p.Root, out: part}
	}
	return role{in: -1, out: -1, exchange: p.Kind == AllToAll}
}

// String returns the name of the step, as in "RecvReduceSend".
func (o Op) String() string { return nameOf(opNames[:], "Op", uint8(o)) }

// String returns the name of the collective, as in "allreduce".
func (k Kind) String() string { return nameOf(kindNames[:], "Kind", uint8(k)) }

// String returns the name of the buffer, as in "in".
func (b Buf) String() string { return nameOf(bufNames[:], "Buf", uint8(b)) }

func nameOf(names []string, kind string, i uint8) string {
	if int(i) >= len(names) || names[i] == "" {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

// String writes s as an assignment: its targets, a =, its operands. "out, to 2 = in + from 3" is a RecvReduceCopySend;
// + is the reduction.
func (s Step) String() string { return string(s.appendTo(nil)) }

func (s Step) appendTo(b []byte) []byte {
	if !s.Op.valid() || !s.Src.valid() || !s.Dst.valid() {
		return fmt.Appendf(b, "%v src=%v dst=%v from=%d to=%d", s.Op, s.Src, s.Dst, s.From, s.To)
	}
	u := opUses[s.Op]
	peer := func(word string, rank int32) {
		b = strconv.AppendInt(append(b, word...), int64(rank), 10)
	}
	if u.dst {
		b = append(b, bufNames[s.Dst]...)
	}
	if u.dst && u.to {
		b = append(b, ", "...)
	}
	if u.to {
		peer("to ", s.To)
	}
	b = append(b, " = "...)
	if u.acc {
		b = append(append(b, bufNames[s.Dst]...), " + "...)
	}
	if u.src {
		b = append(b, bufNames[s.Src]...)
	}
	if u.src && u.from {
		b = append(b, " + "...)
	}
	if u.from {
		peer("from ", s.From)
	}
	return b
}

// MarshalText gives the name of k, as String does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes the name of a kind.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if len(text) == 0 || i < 0 {
		return fmt.Errorf("%q is no kind of collective", text)
	}
	*k = Kind(i)
	return nil
}
