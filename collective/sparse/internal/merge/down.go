package merge

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Down processes the next chunk of the parent, at once. Precondition: the Node is not the root.
func (n *Node) Down(p []byte) error {
	c, err := decode(p, n.job.Grid, n.incoming, &n.thin, true)
	if err == nil {
		n.incoming = c.runs
		err = n.allowed(&c)
	}
	if err != nil {
		return n.chunkError("the parent", err)
	}
	n.received(p)
	n.hasResult = true
	for _, r := range c.runs {
		c.body = n.store(r, c.body)
	}
	n.parts = append(n.parts[:0], n.job.Send, n.job.Recv)
	n.later.Run(n.job.Op, n.job.DType, n.job.Recv, n.parts, false)
	n.later.Reset()
	n.promise = int(c.next)
	return nil
}

// ExpectsResult reports whether the parent still has to send a chunk.
func (n *Node) ExpectsResult() bool { return !n.root && n.promise != infinity }

// allowed checks a chunk of the parent against the blocks sent to it: every block that went up comes back, and none
// comes before.
func (n *Node) allowed(c *chunk) error {
	if c.tensor != n.job.Tensor {
		return fmt.Errorf("%w: tensor %d", block.ErrMismatch, c.tensor)
	}
	if len(c.runs) == 0 && (n.hasResult || c.next != infinity) {
		return fmt.Errorf("%w: no blocks", block.ErrProtocol)
	}
	if n.hasResult && c.runs[0].first != n.promise {
		return fmt.Errorf("%w: it begins with block %d after block %d was promised", block.ErrProtocol, c.runs[0].first,
			n.promise)
	}
	own := n.have // blocks that went up from here, or will
	if n.children == 0 {
		own = n.job.Blocks
	}
	at := n.final
	for _, r := range c.runs {
		if b := own.Next(at); b >= 0 && b < r.first {
			return fmt.Errorf("%w: block %d, which this rank sent, is not in the result", block.ErrProtocol, b)
		}
		at = r.first + r.n
		if at > int(n.upNext) {
			return fmt.Errorf("%w: results up to block %d, after this rank sent those before block %d", block.ErrProtocol, at,
				n.upNext)
		}
		if !r.kept {
			continue
		}
		if first, k := own.Run(r.first); first != r.first || k < r.n {
			return fmt.Errorf("%w: %d blocks from %d on are to be kept, which this rank has not sent", block.ErrProtocol, r.n,
				r.first)
		}
	}
	if c.next == infinity {
		if b := own.Next(at); b >= 0 {
			return fmt.Errorf("%w: block %d, which this rank sent, is not in the result", block.ErrProtocol, b)
		}
		if n.upNext != infinity {
			return fmt.Errorf("%w: the result ends before this rank has sent block %d", block.ErrProtocol, n.upNext)
		}
	}
	return nil
}

// store makes a run of the result final and returns the rest of the body.
func (n *Node) store(r run, body []byte) []byte {
	j := &n.job
	n.final = r.first + r.n
	n.addResult(r.first, r.n)
	dst := j.Grid.Of(j.Recv, r.first, r.n)
	switch {
	case !r.kept:
		body = body[copy(dst, body):]
	default:
		n.keep(r)
	}
	switch {
	case n.children == 0:
	case !r.kept:
		n.log = appended(n.log, result{r.first, r.n, 0})
	default:
		for b := r.first; b < r.first+r.n; b++ {
			n.log = appended(n.log, result{b, 1, n.sole[b]})
		}
	}
	return body
}

// addResult counts blocks of the result.
func (n *Node) addResult(first, blocks int) {
	n.counts.Union += blocks
	if n.job.Union != nil {
		n.job.Union.AddRun(first, blocks)
	}
}

// keep stores a run that this rank sent up, and to which no rank above added, in the result.
func (n *Node) keep(r run) {
	from, to := n.job.Grid.Range(r.first, r.n)
	n.later.Add(from, to-from, 1, !n.job.Alone && block.ZeroCounts(n.job.Op, n.job.DType))
	if n.children == 0 {
		n.later.From(0, from) // of Send
	} else {
		n.later.From(1, from) // of Recv
	}
}

// ToChild composes the next chunk for a child: see Up.
func (n *Node) ToChild(child int, window []byte) int {
	o := &n.down[child]
	if o.ended || !n.hasResult {
		return 0
	}
	w := n.writer(window)
	next := n.compose(&w, o, n.log, n.promise, 1+child)
	size := n.send(&w, next)
	if size > 0 {
		o.ended = next == infinity
	}
	return size
}
