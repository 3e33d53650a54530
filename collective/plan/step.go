package plan

import "fmt"

// uses says which fields of a Step an Op has a use for.
type uses struct {
	name               string
	src, dst, from, to bool
}

var opUses = [...]uses{
	Send:               {name: "Send", src: true, to: true},
	Recv:               {name: "Recv", dst: true, from: true},
	RecvReduce:         {name: "RecvReduce", src: true, dst: true, from: true},
	RecvReduceSend:     {name: "RecvReduceSend", src: true, from: true, to: true},
	RecvReduceCopySend: {name: "RecvReduceCopySend", src: true, dst: true, from: true, to: true},
	RecvCopySend:       {name: "RecvCopySend", dst: true, from: true, to: true},
	Copy:               {name: "Copy", src: true, dst: true},
}

var kindNames = [...]string{AllReduce: "allreduce", Reduce: "reduce", Broadcast: "broadcast", Barrier: "barrier",
	AllGather: "allgather", ReduceScatter: "reducescatter"}

var bufNames = [...]string{None: "none", In: "in", Out: "out", Tmp: "tmp"}

func (o Op) valid() bool   { return o >= Send && int(o) < len(opUses) }
func (k Kind) valid() bool { return k >= AllReduce && int(k) < len(kindNames) }
func (b Buf) valid() bool  { return int(b) < len(bufNames) }

// Reads reports whether o reads the local buffer Src.
func (o Op) Reads() bool { return o.valid() && opUses[o].src }

// Writes reports whether o writes the local buffer Dst.
func (o Op) Writes() bool { return o.valid() && opUses[o].dst }

// Receives reports whether o takes a window from From.
func (o Op) Receives() bool { return o.valid() && opUses[o].from }

// Sends reports whether o fills a window for To.
func (o Op) Sends() bool { return o.valid() && opUses[o].to }

// Reduces reports whether o combines Src with the window received.
func (o Op) Reduces() bool { return o.Reads() && o.Receives() }

// HasRoot reports whether collectives of kind k name a root.
func (k Kind) HasRoot() bool { return k == Reduce || k == Broadcast }

// HasParts reports whether the message of a collective of kind k is one equal
// part per rank.
func (k Kind) HasParts() bool { return k == AllGather || k == ReduceScatter }

// bothWays reports whether collectives of kind k gather first and hand out then.
func (k Kind) bothWays() bool { return k == AllReduce || k == Barrier }

// role says what a lane does with its share: that of an AllGather is a
// Broadcast from the rank whose part it is, that of a ReduceScatter a Reduce to
// it. root is -1 where the kind has none.
func (p *Plan) role(lane int) (kind Kind, root int) {
	switch p.Kind {
	case AllGather:
		return Broadcast, p.Lanes[lane].Part
	case ReduceScatter:
		return Reduce, p.Lanes[lane].Part
	}
	return p.Kind, p.Root
}

// String returns the name of the step, as in "RecvReduceSend".
func (o Op) String() string {
	if !o.valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opUses[o].name
}

// String returns the name of the collective, as in "allreduce".
func (k Kind) String() string {
	if !k.valid() {
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// String returns the name of the buffer, as in "in".
func (b Buf) String() string {
	if !b.valid() {
		return fmt.Sprintf("Buf(%d)", uint8(b))
	}
	return bufNames[b]
}

// String writes s as an assignment: what is written, a =, what it is made of.
// "out, to 2 = in + from 3" is a RecvReduceCopySend; + is the reduction.
func (s Step) String() string {
	switch s.Op {
	case Send:
		return fmt.Sprintf("to %d = %v", s.To, s.Src)
	case Recv:
		return fmt.Sprintf("%v = from %d", s.Dst, s.From)
	case RecvReduce:
		return fmt.Sprintf("%v = %v + from %d", s.Dst, s.Src, s.From)
	case RecvReduceSend:
		return fmt.Sprintf("to %d = %v + from %d", s.To, s.Src, s.From)
	case RecvReduceCopySend:
		return fmt.Sprintf("%v, to %d = %v + from %d", s.Dst, s.To, s.Src, s.From)
	case RecvCopySend:
		return fmt.Sprintf("%v, to %d = from %d", s.Dst, s.To, s.From)
	case Copy:
		return fmt.Sprintf("%v = %v", s.Dst, s.Src)
	}
	return fmt.Sprintf("%v src=%v dst=%v from=%d to=%d", s.Op, s.Src, s.Dst, s.From, s.To)
}
