package exec

import (
	"github.com/treerun/treerun/collective/plan"
)

// lendFrom is the size of a message, in bytes, from which memory that other
// ranks can read is lent to them and not copied.
const lendFrom = 4 << 10

// prepareLending finds out which buffers of c can be lent.
func (k *Links) prepareLending(c *Call) {
	c.lendIn, c.lendOut = false, false
	if len(c.Pieces) > 0 || int64(c.Header.Count)*int64(c.DType.Size()) < lendFrom {
		return
	}
	c.lendIn = !c.Scale && len(c.In) > 0 && k.ep.Shared(c.In)
	c.lendOut = c.Divide < 2 && len(c.Out) > 0 && k.ep.Shared(c.Out)
	c.inPlace = overlap(c.In, c.Out)
}

// lends reports whether what s sends can be read where it lies in the caller's
// memory: it must not change before everybody has read it. In place that is so
// in a reduction if the input goes to one other rank, and this rank stores in its
// place nothing but what it receives as a whole: the result, which that rank had
// to read the input for. A rank that makes the result itself may be done before.
func (c *Call) lends(s *step) bool {
	if s.dst == plan.None && s.isBuffer() {
		switch s.args[0].buf {
		case plan.In:
			again := c.Op != 0 && (len(s.outs) > 1 || !s.heard) || plan.Kind(c.Header.Kind) == plan.AllToAll
			return c.lendIn && !(c.inPlace && again)
		case plan.Out:
			return c.lendOut
		}
		return false
	}
	return s.dst == plan.Out && s.final && c.lendOut
}

// lend computes the value of s where it belongs, and lends it to the receivers.
func (k *Links) lend(t *track, s *step, from, n int) {
	c := t.call
	b, part := s.dst, s.dstPart
	if b == plan.None {
		b, part = s.args[0].buf, s.args[0].part
	} else {
		k.move(t, s, nil, from, n)
	}
	window := t.buffer(b, part, c.In, c.Out, t.start+from, n)
	for _, o := range s.outs {
		o.link.Lend(&c.Header, window)
	}
}

// returned reports whether all that t has lent has come back.
func (t *track) returned() bool {
	for i := range t.steps {
		for _, o := range t.steps[i].outs {
			if !o.link.Returned() {
				return false
			}
		}
	}
	return true
}
