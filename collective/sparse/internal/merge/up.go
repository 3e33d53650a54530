package merge

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// input is one of the sorted streams that a Node merges. The number of its next block is known before the block
// arrives.
type input struct {
	at      int // the next block, infinity at the end; 0 before the first chunk
	n       int // blocks of its run that are here; 0: none yet
	started bool

	set     block.Set // own blocks, among blocks 0 to blocks-1
	finder  Finder    // finder of blocks that are not in set yet; nil: all are
	blocks  int
	count   int // of the first words of set, of which there are counted
	counted int
	runs    []run  // of a child's chunk, the present one first
	whole   []byte // its blocks
	body    []byte // those that are left
	next    uint32 // the next block, as the chunk announced
	memory  []run  // for the runs of a chunk
	thin    block.Thin
}

// own advances to the first own block from b on, and searches until it finds one.
func (in *input) own(b int) {
	for {
		if in.at, in.n = in.set.Run(b); in.n > 0 {
			return
		}
		if in.finder == nil || in.finder.Known() >= in.blocks {
			in.at = infinity
			return
		}
		b = max(b, in.finder.Known())
		in.finder.Find()
	}
}

// take advances past n blocks, which are size bytes of a chunk's body.
func (in *input) take(n, size int) {
	in.at += n
	in.n -= n
	switch {
	case in.set != nil && in.n == 0:
		in.own(in.at)
	case in.set == nil:
		in.body = in.body[size:]
		if in.n == 0 {
			in.runs = in.runs[1:]
			in.advance()
		}
	}
}

// advance moves to the first of the remaining runs.
func (in *input) advance() {
	if len(in.runs) == 0 {
		in.at, in.n = int(in.next), 0
		return
	}
	in.at, in.n = in.runs[0].first, in.runs[0].n
}

// NeedsChunk reports whether Feed can accept the child's next chunk. The previous chunk is then no longer in use.
func (n *Node) NeedsChunk(child int) bool {
	in := &n.in[1+child]
	return in.n == 0 && (!in.started || in.at != infinity)
}

// Feed processes the next chunk of a child. Precondition: NeedsChunk.
func (n *Node) Feed(child int, p []byte) error {
	in := &n.in[1+child]
	c, err := decode(p, n.job.Grid, in.memory, &in.thin, false)
	switch {
	case err != nil:
	case c.tensor != n.job.Tensor:
		err = fmt.Errorf("%w: tensor %d", block.ErrMismatch, c.tensor)
	case len(c.runs) == 0 && (in.started || c.next != infinity):
		err = fmt.Errorf("%w: no blocks", block.ErrProtocol)
	case in.started && c.runs[0].first != in.at:
		err = fmt.Errorf("%w: it begins with block %d after block %d was promised", block.ErrProtocol, c.runs[0].first, in.at)
	}
	if err != nil {
		return n.chunkError(fmt.Sprintf("child %d", child), err)
	}
	n.received(p)
	in.memory, in.runs, in.whole, in.body, in.next, in.started = c.runs, c.runs, c.body, c.body, c.next, true
	in.advance()
	return nil
}

// received counts a chunk.
func (n *Node) received(p []byte) {
	n.counts.ReceivedChunks++
	n.counts.ReceivedBytes += len(p)
	n.counts.ReceivedBlocks += int(binary.LittleEndian.Uint32(p[8:]))
}

// nextBlock returns the block that is merged next, infinity at the end.
func (n *Node) nextBlock() int {
	b := infinity
	for i := range n.in {
		b = min(b, n.in[i].at)
	}
	return b
}

// Merge makes the reductions that are possible now, up to about limit bytes of the result. It reports whether there
// were any.
func (n *Node) Merge(limit int) bool {
	if n.children == 0 && !n.root {
		return false // its blocks go up as they are
	}
	some := n.merge(limit)
	if some {
		n.flush()
	}
	return some
}

// flush makes the reductions that merge listed.
func (n *Node) flush() {
	n.parts = append(n.parts[:0], n.job.Send)
	for i := range n.in[1:] {
		n.parts = append(n.parts, n.in[1+i].whole)
	}
	n.later.Run(n.job.Op, n.job.DType, n.job.Recv, n.parts, false)
	n.later.Reset()
}

// merge is Merge without the reductions, which it lists.
func (n *Node) merge(limit int) (some bool) {
	for limit > 0 {
		b := n.nextBlock()
		if b == infinity {
			if n.root && n.promise != infinity {
				n.promise = infinity
				return true
			}
			return some
		}
		blocks := n.ready(b, limit/n.job.Grid.BlockBytes()+1)
		if blocks == 0 {
			return some
		}
		n.mergeRun(b, blocks)
		limit -= blocks * n.job.Grid.BlockBytes()
		some = true
	}
	return some
}

// ready returns the number of blocks from b on, up to most, that can be reduced in one piece: the same inputs have all
// of them, and they have arrived.
func (n *Node) ready(b, most int) int {
	for i := range n.in {
		if in := &n.in[i]; in.at == b {
			most = min(most, in.n)
		} else {
			most = min(most, in.at-b)
		}
	}
	return most
}

// mergeRun merges blocks b to b+blocks-1, except for the sums, which flush adds up.
func (n *Node) mergeRun(b, blocks int) {
	j := &n.job
	from, to := j.Grid.Range(b, blocks)
	sources, last := 0, 0
	for i := range n.in {
		if n.in[i].at == b {
			sources, last = sources+1, i
		}
	}
	all := len(n.in)
	if j.Send == nil {
		all-- // this rank has no block, not even of zeros
	}
	n.later.Add(from, to-from, sources, sources < all && block.ZeroCounts(j.Op, j.DType))
	for k := range n.in {
		i := n.input(k)
		in := &n.in[i]
		switch {
		case in.at != b:
			continue
		case i == 0:
			n.later.From(0, from)
		default:
			n.later.From(i, len(in.whole)-len(in.body))
		}
		in.take(blocks, to-from)
	}
	sole := uint16(0)
	if sources == 1 {
		sole = uint16(last) // 0 for the own block
	}
	if n.root {
		n.addResult(b, blocks)
		n.log = appended(n.log, result{b, blocks, sole})
		n.promise = n.nextBlock()
		return
	}
	for i := b; i < b+blocks; i++ {
		n.sole[i] = sole
		n.have.Add(i)
	}
	n.merged = appended(n.merged, result{b, blocks, 0})
}

// input returns the k-th of the inputs in the order in which blocks are added.
func (n *Node) input(k int) int {
	switch {
	case k < n.job.Before:
		return k + 1
	case k == n.job.Before:
		return 0
	}
	return k
}

// appended returns log with r, as part of its last entry where it continues it.
func appended(log []result, r result) []result {
	if len(log) > 0 {
		if last := &log[len(log)-1]; last.first+last.n == r.first && last.sole == r.sole {
			last.n += r.n
			return log
		}
	}
	return append(log, r)
}

// firstBytes is the size of the first chunk of a rank that still searches: its parent cannot merge before it has a
// chunk of every child.
const firstBytes = 8 << 10

// Window returns the size of the next chunk for the parent, up to most bytes, or 0 if there is none yet: a rank that
// searches sends its blocks once they fill a chunk. To compose a chunk earlier would mean to search until it is full,
// while the other trees' links wait.
func (n *Node) Window(most int) int {
	f := n.job.Finder
	if n.children > 0 || f == nil || f.Known() == n.job.Grid.Blocks() {
		return most
	}
	if n.counts.SentChunks == 0 {
		most = min(most, max(firstBytes, n.LeastWindow()))
	}
	if n.LeastWindow()+n.found()*n.job.Grid.BlockBytes() <= most {
		return 0
	}
	return most
}

// found returns the number of blocks found that have not gone up, of a rank without children, counted in whole words of
// its set.
func (n *Node) found() int {
	in := &n.in[0]
	words := len(in.set)
	if in.finder != nil {
		words = min(words, in.finder.Known()/64)
	}
	for ; in.counted < words; in.counted++ {
		in.count += bits.OnesCount64(in.set[in.counted])
	}
	return in.count - n.counts.SentBlocks
}

// LeastWindow returns the minimum size of a window for a chunk, in bytes.
func (n *Node) LeastWindow() int {
	return HeaderBytes + RunBytes + n.job.Grid.BlockBytes()
}

// Up composes the next chunk for the parent in window, of at least LeastWindow bytes, and returns its size, 0 if there
// is nothing to send now. It takes as many merged blocks as fit.
func (n *Node) Up(window []byte) int {
	if n.upEnd {
		return 0
	}
	w := n.writer(window)
	next := 0
	if n.children == 0 {
		own := &n.in[0]
		for own.at != infinity {
			k := w.room(own.at, own.n, false)
			if k == 0 {
				break
			}
			w.add(own.at, k, n.job.Send, false)
			own.take(k, 0)
		}
		next = own.at
	} else {
		next = n.compose(&w, &n.up, n.merged, n.nextBlock(), toParent)
	}
	size := n.send(&w, next)
	if size > 0 {
		n.upNext, n.upEnd = uint32(next), next == infinity
	}
	return size
}

// toParent is the receiver for compose; a child is 1 + its index.
const toParent = 0

func (n *Node) writer(window []byte) writer {
	return writer{grid: n.job.Grid, window: window, runs: n.outgoing[:0]}
}

// compose writes the part of a log that fits, and returns the block that follows, end if that is not in the log.
func (n *Node) compose(w *writer, o *outlet, log []result, end, to int) (next int) {
	for e := o.pending(log); e.n > 0; e = o.pending(log) {
		keep := to > 0 && int(e.sole) == to
		k := w.room(e.first, e.n, keep)
		if k == 0 {
			return e.first
		}
		w.add(e.first, k, n.job.Recv, keep)
		o.off += k
	}
	return end
}

// send finishes a chunk, if there is anything in it, and counts it.
func (n *Node) send(w *writer, next int) int {
	n.outgoing = w.runs
	if len(w.runs) == 0 && next != infinity {
		return 0
	}
	var thin *block.Thin
	if n.job.Thin {
		thin = &n.thin
	}
	size := w.finish(n.job.Tensor, uint32(next), thin)
	n.counts.SentChunks++
	n.counts.SentBytes += size
	n.counts.SentBlocks += w.carried
	return size
}
