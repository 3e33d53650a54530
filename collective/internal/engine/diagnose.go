package engine

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/waits"
)

// PreMulSum stands in the Op of a header for a sum of inputs that every rank has multiplied beforehand.
const PreMulSum = 100

// Exchange stands in the Op of a header of an AllGather with which a sparse
// collective begins or, of a device call, with which ranks open their devices.
const Exchange = 101

// Splits stands in the Op of a header of the AllGather with which a Split begins.
const Splits = 102

// InOrder and the values after it, one for each of CallsInOrder, stand in the Op of a header of the AllGather with
// which such a call begins.
const InOrder = 103

// CallsInOrder are the calls that combine the inputs of the ranks in the order of the ranks.
var CallsInOrder = [...]string{"AllReduceFunc", "ReduceFunc", "Scan", "ExScan", "ScanFunc", "ExScanFunc",
	"ReduceScatterFunc", "AllReduceMinLoc", "AllReduceMaxLoc"}

// Locates and the value after it are calls of one element, which is no slice of the caller's.
const Locates = InOrder + 7

// Describe names the call that a header belongs to, for users.
func Describe(h call.Header) string {
	if h.Kind == messageKind && h.Op == OnDevice {
		return fmt.Sprintf("message #%d on devices (%d %s)", h.Seq, h.Count, kernel.DType(h.DType))
	}
	if h.Kind == messageKind {
		return fmt.Sprintf("a message (%d %s, tag %d)", h.Count, kernel.DType(h.DType), h.Root)
	}
	kind, onDevice := kindOf(h)
	h, number := numberOf(h)
	switch {
	case h.Op == Exchange && onDevice:
		return fmt.Sprintf("the opening of the devices (#%d)", h.Seq)
	case h.Op == Exchange:
		return fmt.Sprintf("sparse collective #%d", h.Seq)
	case h.Op == Splits:
		return fmt.Sprintf("Split #%d", h.Seq)
	case h.Op >= InOrder && int(h.Op) < InOrder+len(CallsInOrder):
		name := fmt.Sprintf("%s #%d", CallsInOrder[h.Op-InOrder], h.Seq)
		if h.Op >= Locates {
			name += fmt.Sprintf(" (%s)", kernel.DType(h.DType))
		}
		return name
	}
	if kind == 0 {
		return fmt.Sprintf("call #%d on host memory", h.Seq)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s #%d", CallName(plan.Kind(h.Kind)), h.Seq)
	if kind == plan.Barrier {
		return b.String()
	}
	b.WriteString(" (")
	switch {
	case h.Op == PreMulSum:
		b.WriteString("pre-multiplied sum of ")
	case h.Op != 0:
		fmt.Fprintf(&b, "%s of ", kernel.Op(h.Op))
	}
	if h.Kind&Varied == 0 || kind != plan.AllToAll && !rooted(h) { // elsewhere each rank has its own count
		fmt.Fprintf(&b, "%d ", h.Count)
	}
	fmt.Fprint(&b, kernel.DType(h.DType))
	if h.Root >= 0 {
		fmt.Fprintf(&b, ", root %d", h.Root)
	}
	if number > 0 {
		fmt.Fprintf(&b, ", Init %d", number+1)
	}
	b.WriteString(")")
	return b.String()
}

// NameOf returns the name of the function that makes calls with such a header.
func NameOf(kind, as uint8) string {
	if as >= InOrder && int(as) < InOrder+len(CallsInOrder) {
		return CallsInOrder[as-InOrder]
	}
	return CallName(plan.Kind(kind))
}

// CallName returns the name of the function that makes calls of a kind, which may have OnDevice and Varied.
func CallName(k plan.Kind) string {
	if callNames[k] == "" {
		return fmt.Sprintf("unknown call %d", k)
	}
	return callNames[k]
}

var callNames = func() (names [256]string) {
	for k, name := range map[plan.Kind]string{plan.AllReduce: "AllReduce", plan.Reduce: "Reduce",
		plan.Broadcast: "Broadcast", plan.Barrier: "Barrier", plan.AllGather: "AllGather",
		plan.ReduceScatter: "ReduceScatter", plan.AllToAll: "AllToAll", plan.Gather: "Gather", plan.Scatter: "Scatter"} {
		names[k], names[k|Varied], names[k|OnDevice] = name, name+"V", name+"Device"
	}
	return names
}()

// doing names the call or message in which this rank waits.
func (e *Engine) doing() string {
	switch {
	case e.messages.waited != nil:
		return e.Waits(e.messages.waited)
	case e.waitsBeside != nil:
		return e.waitsBeside.Name
	case e.first != nil:
		return Describe(e.first.Header)
	}
	return "nothing"
}

// Waits names message p that this rank waits for, with those that have come in its place: of another tag.
func (e *Engine) Waits(p *Message) string {
	text, more := p.String(), 0
	if e.messages.closing {
		text = "Close, after " + text
	}
	for r := 0; !p.send && r < len(e.messages.inbox); r++ {
		for _, a := range e.messages.inbox[r].unexpected {
			if p.Peer != AnySource && p.Peer != r || a.header.Root < 0 || a.receive != nil {
				continue
			}
			if more++; more == 1 {
				text += fmt.Sprintf(" [unreceived: %d %v, tag %d, from rank %d", a.header.Count, kernel.DType(a.header.DType),
					a.header.Root, r)
			}
		}
	}
	switch {
	case more > 1:
		text += fmt.Sprintf(", and %d more]", more-1)
	case more == 1:
		text += "]"
	}
	return text
}

// lacking returns the ranks whose chunk or slot this rank lacks, and their entries on the board.
func (e *Engine) lacking() []waits.Lack {
	seen := make(map[int32]bool)
	var list []waits.Lack
	p := e.messages.waited
	any := p != nil && p.Peer == AnySource
	lacks := func(peer int32, what string) {
		st := e.ep.Status(int(peer))
		if seen[peer] || any && st.Closed {
			return
		}
		seen[peer] = true
		if st.Closed {
			what += ", which has closed"
		} else if st.Call.Seq > 0 {
			what += ", whose latest collective is " + Describe(st.Call)
		}
		list = append(list, waits.Lack{Rank: int(peer), What: what, Any: any})
	}
	for r := 0; p != nil && r < e.size; r++ {
		switch {
		case any && r == e.rank && e.size > 1 || !any && r != p.Peer:
		case p.send:
			lacks(int32(r), "to receive")
		default:
			lacks(int32(r), "to send")
		}
	}
	for i := 0; p == nil && e.first != nil && i < len(e.active.tracks); i++ {
		if t := &e.active.tracks[i]; t.call != nil && t.chunk < t.chunks {
			t.steps[t.next].lacks(lacks)
		}
	}
	return list
}

// lacks calls f for the ranks whose chunk s needs and has not got, or, if it
// has them all, for those that have no free slot.
func (s *step) lacks(f func(peer int32, what string)) {
	var h call.Header
	all := true
	for _, a := range s.args {
		if a.in == nil {
			continue
		}
		if _, ok, _ := a.in.TryPeek(&h); !ok {
			all = false
			f(a.From, "to send")
		}
	}
	if !all {
		return
	}
	for _, o := range s.outs {
		if _, ok, _ := o.link.TryReserve(0); !ok {
			f(o.to, "to take a chunk")
		}
	}
}
