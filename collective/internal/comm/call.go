package comm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/internal/p2p"
	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Args is a call that has been checked and not begun.
type Args struct {
	engine.Args
	Kind  plan.Kind // the kind of plan that the call runs
	gives bool      // whether this rank gives something
	gets  bool      // whether this rank gets something
	own   int       // bytes of the caller's memory in a call that Then continues
	unit  int       // where the elements are bytes, how many of them are one element of the caller's; else 0 or 1

	// In a call that is Varied, the caller's counts of the parts of all ranks; in an AllToAll those that this rank sends,
	// and those that it receives. Without them this rank has the length of its own part only.
	counts, receives []int

	Err error // why the call cannot be made, if it cannot
	why error // the same, without the name of the call
	on  *Comm // that has refused it
}

// NewArgs returns the Args of the call id, whose other fields the caller sets.
func NewArgs(id call.ID) *Args { return &Args{Args: engine.Args{ID: id}} }

// Refuse sets the error of a to an argument error.
func (a *Args) Refuse(c *Comm, format string, v ...any) {
	a.on, a.why = c, fmt.Errorf(format, v...)
	a.As(0)
}

// As adds a form to that of a.
func (a *Args) As(form call.Form) *Args {
	if a.Form |= form; a.why != nil {
		a.Err = a.on.ArgumentError(a.Form.Name(&a.ID), "%w", a.why)
	}
	return a
}

// NoRoot is the text of a root that is none of so many ranks.
func NoRoot(root, ranks int) string {
	if root == p2p.NoRank || root == p2p.AnySource {
		return "the root is " + p2p.RankName(root) + ", want a rank"
	}
	return fmt.Sprintf("root %d of %d ranks", root, ranks)
}

// ArgumentError is the ErrArgument of a call with a name.
func (c *Comm) ArgumentError(call, format string, v ...any) error {
	if c.none {
		return fmt.Errorf("collective: %s: %w: the Comm is nil (hint: Split returns nil for a negative color)", call,
			setup.ErrArgument)
	}
	return fmt.Errorf("collective: %s on %s: %w: %w", call, c.self(), setup.ErrArgument, fmt.Errorf(format, v...))
}

// self names this rank, and the communicator if it is not the first of the World, whose rank that is.
func (c *Comm) self() string {
	if c.Name == setup.FirstName {
		return fmt.Sprint("rank ", c.Rank)
	}
	return fmt.Sprintf("rank %d of %s", c.Rank, c.Name)
}

// setID completes the ID of a call of the given kind; fields that it has already stay.
func (a *Args) setID(kind plan.Kind, root, count int, t kernel.DType) {
	id := &a.ID
	id.Root, id.Count, id.Op = int32(root), uint64(count), a.Op
	id.Kind, id.DType = cmp.Or(id.Kind, call.Kind(kind)), cmp.Or(id.DType, t)
	a.Kind, a.DType = kind, t
}

// Set sets and checks the fields that all calls with buffers have in common: lengths and places of send and recv must
// be those that kind requires on this rank, and the operation Op must exist for their elements. The caller sets In and
// Out; Set ignores a buffer that this rank does not have.
func (a *Args) Set(c *Comm, kind plan.Kind, root int, t kernel.DType, send, recv kernel.Span) *Args {
	count := recv.Count
	switch kind {
	case plan.Reduce, plan.AllGather, plan.Gather:
		count = send.Count
	case plan.AllToAll:
		count = a.elements(count) / c.Size * max(a.unit, 1)
	}
	a.setID(kind, root, count, t)
	a.gives, a.gets = roleOf(c.Rank, kind, root)
	var err error
	if kind.HasParts() || kind.Scans() {
		err = c.Plans.Planner.Site.Runs(kind)
	}
	switch {
	case a.Err != nil:
	case kind.HasRoot() && (root < 0 || root >= c.Size):
		a.Refuse(c, "%s", NoRoot(root, c.Size))
	case err != nil:
		a.Refuse(c, "%v", err)
	case a.ID.Device && !t.OnDevice():
		a.Refuse(c, "device calls have no elements of %v", t)
	case kind == plan.AllGather || kind == plan.Gather:
		a.parts(c, "recv", recv, "send", send, a.gets)
	case kind == plan.ReduceScatter || kind == plan.Scatter:
		a.parts(c, "send", send, "recv", recv, a.gives)
	case !a.gives || !a.gets:
	case send.Count != recv.Count:
		a.Refuse(c, "send has %d elements, recv %d", a.elements(send.Count), a.elements(recv.Count))
	case kind == plan.AllToAll && recv.Count != count*c.Size:
		a.Refuse(c, "recv has %d elements, want %d parts of %d", a.elements(recv.Count), c.Size, a.elements(count))
	case send.Overlap(recv) == kernel.Partial:
		a.Refuse(c, "send and recv overlap in part; use the same slice or two separate ones")
	}
	if kind == plan.AllReduce || kind == plan.Reduce || kind == plan.ReduceScatter || kind.Scans() {
		a.checkOp(c)
	}
	return a
}

// SetBarrier sets a to a Barrier, which runs as an AllReduce of nothing.
func (a *Args) SetBarrier() *Args {
	a.Op = kernel.Sum
	a.setID(plan.Barrier, -1, 0, kernel.Uint8)
	return a
}

// checkOp refuses an operation that there is not for these elements.
func (a *Args) checkOp(c *Comm) {
	switch {
	case a.Err != nil || a.Func != nil:
	case !a.Op.Valid():
		a.Refuse(c, "no such operation: %d", a.Op)
	case !a.Op.Takes(a.DType) && a.Op > kernel.Avg:
		a.Refuse(c, "operation %v is for integers and bools, not for %v", a.Op, a.DType)
	case !a.Op.Takes(a.DType):
		a.Refuse(c, "there is no %v of elements of %v", a.Op, a.DType)
	case a.Kind.Scans() && a.Op == kernel.Avg:
		a.Refuse(c, "there is no average of the ranks up to one")
	case a.ID.Device && a.Op > kernel.Avg:
		a.Refuse(c, "device calls have no operation %v", a.Op)
	case a.gets && a.Op == kernel.Avg:
		a.Divide = c.Size
	case a.gets && a.Op >= kernel.LogicalAnd && a.DType != kernel.Bool:
		// this rank may get the values of one rank, which no operation has combined
		a.Truths = c.Size == 1 || a.Kind == plan.Scan && c.Rank == 0 || a.Kind == plan.ExScan && c.Rank == 1
	}
}

// roleOf reports whether a rank gives something in a call of a kind, and gets something.
func roleOf(rank int, kind plan.Kind, root int) (gives, gets bool) {
	if !kind.HasRoot() || root == rank {
		return true, true
	}
	fromRoot := kind == plan.Broadcast || kind == plan.Scatter
	return !fromRoot, fromRoot
}

// parts refuses a part that is not as long as that of this rank and, where this rank has the whole message, too, a
// whole that does not have one part for every rank, or that the part overlaps without being where it belongs.
func (a *Args) parts(c *Comm, wholeName string, whole kernel.Span, partName string, part kernel.Span, both bool) {
	begin, count, total := c.Rank*part.Count, part.Count, c.Size*part.Count
	if a.ID.Varied {
		begin, total = 0, part.Count
		if a.counts != nil {
			begin, count, total = sum(a.counts[:c.Rank]), a.counts[c.Rank], sum(a.counts)
		}
		a.ID.Count = uint64(total)
		if a.ID.CountsAtRoot() {
			a.ID.Count = uint64(count)
		}
	}
	own := part
	own.Addr = whole.Addr + uint64(begin*a.Size())
	switch {
	case part.Count != count:
		a.Refuse(c, "%s has %d elements, counts have %d for this rank", partName, a.elements(part.Count), a.elements(count))
	case !both:
	case whole.Count != total && a.ID.Varied:
		a.Refuse(c, "%s has %d elements, counts have %d for all ranks", wholeName, a.elements(whole.Count),
			a.elements(total))
	case whole.Count != total:
		a.Refuse(c, "%s has %d elements, want %d parts of %d", wholeName, a.elements(whole.Count), c.Size, a.elements(count))
	case part.Overlap(whole) != kernel.Apart && part.Overlap(own) != kernel.InPlace:
		a.Refuse(c, "send and recv overlap; in place, the short slice is part %d of the long one", c.Rank)
	}
}

// elements returns how many elements of the caller's n elements of the call are.
func (a *Args) elements(n int) int { return n / max(a.unit, 1) }

// SetBytes is SetHost for elements of size bytes of a type that is Opaque: the call moves them as bytes.
func (a *Args) SetBytes(c *Comm, kind plan.Kind, root int, t kernel.DType, size int) *Args {
	a.unit = size
	return a.SetHost(c, kind, root, t, len(a.In), len(a.Out))
}

// SetHost is Set for a call on host memory: sends elements in In, recvs elements in Out.
func (a *Args) SetHost(c *Comm, kind plan.Kind, root int, t kernel.DType, sends, recvs int) *Args {
	in, out := kernel.SpanOf(a.In), kernel.SpanOf(a.Out)
	in.Count, out.Count = sends, recvs
	a.Set(c, kind, root, t, in, out)
	if !a.gives {
		a.In = nil
	}
	if !a.gets || kind == plan.ExScan && c.Rank == 0 {
		a.Out = nil
	}
	return a
}

// Vary gives a one part of counts[i] elements for every rank i, the same counts on all ranks. It comes before Set. A
// type that is Opaque has elements of unit bytes; for others it is 1.
func (a *Args) Vary(c *Comm, kind plan.Kind, counts []int, unit int) *Args {
	a.ID.Kind, a.ID.Varied, a.unit = call.Kind(kind), true, unit
	a.counts = a.checkCounts(c, "counts", counts)
	return a
}

// VaryAt is Vary with the counts of root.
func (a *Args) VaryAt(c *Comm, kind plan.Kind, root int, counts []int, unit int) *Args {
	if root == c.Rank {
		return a.Vary(c, kind, counts, unit)
	}
	a.ID.Kind, a.ID.Varied = call.Kind(kind), true
	return a
}

// checkCounts refuses lengths of parts that ranks cannot have, and returns them in elements of the call.
func (a *Args) checkCounts(c *Comm, name string, counts []int) []int {
	if a.Err == nil && len(counts) != c.Size {
		a.Refuse(c, "%s are %d numbers for %d ranks", name, len(counts), c.Size)
	}
	total := 0
	for r, n := range counts {
		if a.Err == nil && (n < 0 || n > a.elements(math.MaxInt32<<16)-total) {
			a.Refuse(c, "%s have %d elements for rank %d", name, n, r)
		}
		total += n
	}
	if a.unit <= 1 {
		return counts
	}
	scaled := make([]int, len(counts))
	for r, n := range counts {
		scaled[r] = n * a.unit
	}
	return scaled
}

func sum(counts []int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

// layOut stores in next where each part of a begins, and where the last one ends.
func (a *Args) layOut(c *Comm, next *engine.Call) {
	next.Begins, next.OutAt = next.Begins[:0], next.OutAt[:0]
	if !a.ID.Varied {
		return
	}
	begins := append(next.Begins, 0)
	for r := range c.Size {
		n := 0
		switch {
		case a.counts != nil:
			n = a.counts[r]
		case r == c.Rank:
			n = int(a.ID.Count)
		}
		begins = append(begins, begins[r]+n)
	}
	next.Begins = begins
	if a.receives == nil {
		return
	}
	at := append(next.OutAt, 0)
	for r, n := range a.receives {
		at = append(at, at[r]+n)
	}
	next.OutAt = at
}

// SetGather turns a into an AllGather of elements of t.
func (a *Args) SetGather(c *Comm, t kernel.DType, mine, all []byte) *Args {
	a.In, a.Out = mine, all
	return a.SetHost(c, plan.AllGather, -1, t, len(mine)/t.Size(), len(all)/t.Size())
}

// Continue has this rank run f once a, in which own bytes are the caller's, has moved all.
func (a *Args) Continue(own int, f func()) *Args {
	a.own, a.Then = own, f
	return a
}

// bytes returns how long the message of a is on communicators of that many ranks, that of all parts where it has parts.
func (a *Args) bytes(ranks int) int {
	if a.receives != nil {
		return len(a.In)
	}
	if a.Kind.HasParts() && !a.ID.Varied {
		return int(a.ID.Count) * a.Size() * ranks
	}
	return int(a.ID.Count) * a.Size()
}
