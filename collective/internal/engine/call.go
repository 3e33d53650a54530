package engine

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
)

// Args are the name, the buffers and the work of a call.
type Args struct {
	ID     call.ID
	Form   call.Form
	In     []byte  // input of this rank, nil where its plan never reads it
	Out    []byte  // output of this rank, nil where its plan never writes it; may be In
	Pieces []Piece // unless empty, in place of In and Out: a message in pieces, one after the other
	Then   func()  // unless nil, what this rank does once a call has moved all
	kernel.Work
}

// Text describes the call by the name of the function that the program has called.
func (a *Args) Text() string { return a.Form.Text(a.ID) }

// Call is one execution of a Program. It belongs to the Engine from Start until
// it is done, and may be used again then.
type Call struct {
	Args
	Chunks plan.Chunks // how the message is cut
	Begins []int       // unless empty, parts differ: where each begins, and the last ends, in elements
	OutAt  []int       // unless empty, Begins is that of In, and this that of Out: see CountsByPair

	program *Program
	header  call.Header // the header made of ID, which travels with every chunk
	next    *Call       // the Call that was started after this one
	left    int         // tracks of this rank that still have to run
	wide    bool        // whether its chunks may be longer than a slot: see wide.go
	stream  bool        // whether the message is too large to stay in any cache
	lendIn  bool        // whether In is memory that other ranks can read
	lendOut bool        // whether Out is memory that other ranks can read
	mayIn   bool        // whether In can be lent where any memory can: to other hosts
	mayOut  bool        // whether Out can be lent there
	lent    bool        // whether some memory was lent
	inPlace bool        // whether In is Out or a part of it, or Out a part of In
	done    bool
}

// Piece is a part of a message that lies by itself. End is where it ends in
// the message, in bytes.
type Piece struct {
	In, Out []byte
	End     int
}

// bytes is the length of a part of the message, on average where parts differ and this rank has the counts of all, or
// the whole one without parts. Where two ranks have the count of a part it is the longest that this one sends.
func (c *Call) bytes() int64 {
	if len(c.OutAt) > 0 {
		most := 0
		for i, from := range c.Begins[1:] {
			most = max(most, from-c.Begins[i])
		}
		return int64(most) * int64(c.DType.Size())
	}
	bytes := int64(c.ID.Count) * int64(c.Size())
	if len(c.Begins) == 0 || c.ID.CountsAtRoot() && c.program.e.rank != int(c.ID.Root) {
		return bytes
	}
	ranks := len(c.Begins) - 1
	return int64(c.Begins[ranks]) * int64(c.DType.Size()) / int64(ranks)
}

// Done reports whether this rank's part of the call is done.
func (c *Call) Done() bool { return c.done }

// complete makes of out, which has all of the values combined, the result.
func (c *Call) complete(out []byte) {
	switch {
	case out == nil:
	case c.Truths:
		kernel.Reduce(kernel.LogicalAnd, c.DType, out, out, out)
	default:
		kernel.Scale(c.DType, out, c.Divide)
	}
}

// finish does the remaining work when all tracks have run, and releases the caller's memory. After the panic of a
// function of the caller c is not done.
func (c *Call) finish() {
	if c.Divide > 1 || c.Truths {
		c.complete(c.Out)
		for _, p := range c.Pieces {
			c.complete(p.Out)
		}
	}
	if c.Then != nil && !c.runThen() {
		return
	}
	c.done = true
	c.In, c.Out, c.Then = nil, nil, nil
	clear(c.Pieces)
}
