package drive

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport"
)

// callRoot stands in the Root of the header of a message that tells an aggregator of
// a call.
const callRoot = -2

// tell tells an aggregator, which is no rank, of a call, if there is room.
func (e *ends) tell(call []byte, head transport.Header) (ok bool, err error) {
	window, ok, err := e.toParent.TryReserve(len(call))
	if err != nil || !ok {
		return false, failed("sending to the aggregator on", e.parent, err)
	}
	copy(window, call)
	head.Root = callRoot
	e.toParent.Commit(&head)
	return true, nil
}

// callers are the workers of an aggregator that is no rank: who of them has told of
// the call under way, and who has closed.
type callers struct {
	star   []child // by worker
	limit  omni.Limit
	busy   bool // a call is under way
	tensor uint32
	shape  omni.Shape
	heard  []bool // by worker: has told of it
	left   int    // workers that have not
	closed []bool // by worker
	gone   int    // how many have
}

func newCallers(k *Links, tree int, limit omni.Limit) callers {
	star := k.trees[tree].children
	return callers{star: star, limit: limit, heard: make([]bool, len(star)), closed: make([]bool, len(star))}
}

// done reports whether no rank can want anything any more.
func (c *callers) done() bool { return !c.busy && c.gone == len(c.star) }

// over ends the call.
func (c *callers) over() {
	c.busy = false
	clear(c.heard)
}

// listen takes what workers say of the call under way that have not told of it, or of
// the next one, which begin then begins.
func (c *callers) listen(begin func(tensor uint32, s *omni.Shape) error) (moved bool, err error) {
	for i, w := range c.star {
		if c.heard[i] || c.closed[i] && !c.busy {
			continue
		}
		if c.closed[i] {
			return moved, failed("a call of the worker on", w.rank, transport.ErrPeerClosed)
		}
		told, err := c.hear(i, begin)
		if err != nil {
			return moved, failed("a call of the worker on", w.rank, err)
		}
		moved = moved || told
	}
	return moved, nil
}

// hear is listen to worker i.
func (c *callers) hear(i int, begin func(tensor uint32, s *omni.Shape) error) (moved bool, err error) {
	var h transport.Header
	packet, ok, err := c.star[i].of.TryPeek(&h)
	if errors.Is(err, transport.ErrPeerClosed) && !c.busy {
		c.closed[i] = true
		c.gone++
		return true, nil
	}
	if err != nil || !ok {
		return false, err
	}
	if h.Root != callRoot {
		return false, fmt.Errorf("%w: a packet of tensor %d before its call", omni.ErrProtocol, h.Seq)
	}
	call, err := omni.DecodeCall(packet, c.limit)
	c.star[i].of.Release()
	switch {
	case err != nil:
		return false, err
	case call.Shape.Lossy:
		return false, fmt.Errorf("%w: a call of Algorithm 2", omni.ErrProtocol)
	case c.busy && (call.Shape != c.shape || call.Tensor != c.tensor):
		return false, fmt.Errorf("%w: it called number %d with %v, others called number %d with %v",
			omni.ErrMismatch, call.Tensor, words(&call.Shape), c.tensor, words(&c.shape))
	case !c.busy:
		if err := begin(call.Tensor, &call.Shape); err != nil {
			return false, err
		}
		c.busy, c.tensor, c.shape, c.left = true, call.Tensor, call.Shape, len(c.star)
	}
	c.heard[i] = true
	c.left--
	return true, nil
}

// waitsFor names a worker that has not called, "" if all have.
func (c *callers) waitsFor() string {
	for i, w := range c.star {
		if !c.heard[i] {
			return fmt.Sprintf("rank %d to call", w.rank)
		}
	}
	return ""
}

// words says what a call is.
func words(s *omni.Shape) string {
	return fmt.Sprintf("%v of %d %v in blocks of %d, %d streams of %d columns", s.Op, s.Grid.Elements, s.DType, s.Grid.Size, s.Streams, s.Columns)
}
