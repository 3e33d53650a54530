package block

import "github.com/treerun/treerun/internal/kernel"

// Combiner reduces what ranks have of the same blocks, in a fixed order. It has
// scratch memory: one goroutine at a time may use it.
type Combiner struct {
	op    kernel.Op
	dtype kernel.DType
	later kernel.Pieces
}

// NewCombiner returns a Combiner. Preconditions: op and dtype are valid, and op
// is Sum, Min or Max: a block that is not sent is no factor of a product.
func NewCombiner(op kernel.Op, dtype kernel.DType) *Combiner {
	return &Combiner{op: op, dtype: dtype}
}

// DType returns the element type.
func (c *Combiner) DType() kernel.DType { return c.dtype }

// Op returns the operation.
func (c *Combiner) Op() kernel.Op { return c.op }

// Combine sets dst to the reduction of srcs from the first to the last. all says
// that every rank's blocks are among them or reduced into one of them; if not,
// +0 is the last. No srcs are +0. Each is as long as dst, whole elements; dst may
// be the very memory of one of them. Precondition: no piece waits for Flush.
func (c *Combiner) Combine(dst []byte, srcs [][]byte, all bool) {
	if len(srcs) == 0 {
		clear(dst)
		return
	}
	c.Later(0, len(dst), len(srcs), all)
	for q := range srcs {
		c.From(q, 0)
	}
	c.Flush(dst, srcs)
}

// Later begins a piece that Flush combines: n bytes, whole elements, of the destination
// from byte at on, of so many sources, which From adds in their order, at least
// one. all is what it is to Combine.
func (c *Combiner) Later(at, n, sources int, all bool) {
	c.later.Add(at, n, sources, !all && (c.op != kernel.Sum || c.dtype.Float())) // + 0 changes no integer
}

// From adds a source to the piece that Later began: from byte at on of the q-th.
func (c *Combiner) From(q, at int) { c.later.From(q, at) }

// Flush combines all pieces, which begins no new one: one call for many small ones. dst
// may be the very memory of a source of which each piece takes the bytes that it becomes.
func (c *Combiner) Flush(dst []byte, srcs [][]byte) {
	if c.later.Len() > 0 {
		c.later.Run(c.op, c.dtype, dst, srcs, false)
		c.later.Reset()
	}
}
