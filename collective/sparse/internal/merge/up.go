package merge

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// input is one of the sorted streams that a Node merges. The block that it has
// next is known before the block is there.
type input struct {
	at    int // the next block, infinity at the end; 0 before the first chunk
	n     int // blocks of its run that are here; 0: none yet
	heard bool

	set     block.Set // of own blocks, of which there are so many in all
	finder  Finder    // of those that are not in set yet; nil: all are
	blocks  int
	count   int // of the first words of set, of which there are counted
	counted int
	runs    []run  // of a child's chunk, the present one first
	whole   []byte // its blocks
	body    []byte // those that are left
	next    uint32 // what the chunk said is next
	memory  []run  // for the runs of a chunk
	thin    block.Thin
}

// own goes to the first own block from b on, which is looked for until it is found.
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

// take moves behind n blocks, which are size bytes of a chunk's body.
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

// advance goes to the first of the runs that are left.
func (in *input) advance() {
	if len(in.runs) == 0 {
		in.at, in.n = int(in.next), 0
		return
	}
	in.at, in.n = in.runs[0].first, in.runs[0].n
}

// Hungry reports whether the child's next chunk can be taken in. The chunk
// before it is then no longer in use.
func (n *Node) Hungry(child int) bool {
	in := &n.in[1+child]
	return in.n == 0 && (!in.heard || in.at != infinity)
}

// Feed takes in the next chunk of a child. Precondition: Hungry.
func (n *Node) Feed(child int, p []byte) error {
	in := &n.in[1+child]
	c, err := decode(p, n.job.Grid, in.memory, &in.thin, false)
	switch {
	case err != nil:
	case c.tensor != n.job.Tensor:
		err = fmt.Errorf("%w: tensor %d", block.ErrMismatch, c.tensor)
	case len(c.runs) == 0 && (in.heard || c.next != infinity):
		err = fmt.Errorf("%w: no blocks", block.ErrProtocol)
	case in.heard && c.runs[0].first != in.at:
		err = fmt.Errorf("%w: it begins with block %d after block %d was promised", block.ErrProtocol, c.runs[0].first, in.at)
	}
	if err != nil {
		return n.refuse(fmt.Sprintf("child %d", child), err)
	}
	n.received(p)
	in.memory, in.runs, in.whole, in.body, in.next, in.heard = c.runs, c.runs, c.body, c.body, c.next, true
	in.advance()
	return nil
}

// received counts a chunk.
func (n *Node) received(p []byte) {
	n.counts.ReceivedChunks++
	n.counts.ReceivedBytes += len(p)
	n.counts.ReceivedBlocks += int(binary.LittleEndian.Uint32(p[8:]))
}

// least returns the block that is merged next, infinity at the end.
func (n *Node) least() int {
	b := infinity
	for i := range n.in {
		b = min(b, n.in[i].at)
	}
	return b
}

// Merge reduces what can be reduced now, up to about limit bytes of the result.
// It reports whether it got on.
func (n *Node) Merge(limit int) bool {
	if n.children == 0 && !n.root {
		return false // its blocks go up as they are
	}
	any := n.merge(limit)
	if any {
		n.flush()
	}
	return any
}

// flush does the reductions that were noted.
func (n *Node) flush() {
	n.parts = append(n.parts[:0], n.job.Send)
	for i := range n.in[1:] {
		n.parts = append(n.parts, n.in[1+i].whole)
	}
	n.later.Run(n.job.Op, n.job.DType, n.job.Recv, n.parts, false)
	n.later.Reset()
}

// merge is Merge up to the reductions, of which it notes what they are.
func (n *Node) merge(limit int) (any bool) {
	for limit > 0 {
		b := n.least()
		if b == infinity {
			if n.root && n.promise != infinity {
				n.promise = infinity
				return true
			}
			return any
		}
		blocks := n.ready(b, limit/n.job.Grid.BlockBytes()+1)
		if blocks == 0 {
			return any
		}
		n.note(b, blocks)
		limit -= blocks * n.job.Grid.BlockBytes()
		any = true
	}
	return any
}

// ready returns how many blocks from b on, at most so many, can be reduced in
// one piece: all inputs that have them are the same, and have them here.
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

// note merges blocks b to b+blocks-1, but for the sums, which flush adds up.
func (n *Node) note(b, blocks int) {
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
		n.know(b, blocks)
		n.log = appended(n.log, result{b, blocks, sole})
		n.promise = n.least()
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

// firstBytes is the size of the chunk with which a rank begins that searches still: its
// parent can merge nothing before it has one of every child.
const firstBytes = 8 << 10

// Window returns how large the next chunk for the parent may be, of at most so many bytes, 0 if
// there is none yet: a
// rank that searches sends what it has found when that fills a chunk. To compose one
// before would be to search until it is full, while the other trees' links wait.
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

// found returns how many blocks of a rank without children are found that have not gone up,
// as far as whole words of its set say.
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

// LeastWindow returns how many bytes a window must have at least for a chunk.
func (n *Node) LeastWindow() int {
	return HeaderBytes + RunBytes + n.job.Grid.BlockBytes()
}

// Up composes the next chunk for the parent in window, of at least LeastWindow
// bytes, and returns its size, 0 if there is nothing to send now. Of what is
// merged it takes what fits.
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
		next, _ = n.compose(&w, &n.up, n.merged, n.least(), toParent)
	}
	size := n.send(&w, next)
	if size > 0 {
		n.upNext, n.upEnd = uint32(next), next == infinity
	}
	return size
}

// toParent is to whom a chunk is composed, or 1 + a child.
const toParent = 0

func (n *Node) writer(window []byte) writer {
	return writer{grid: n.job.Grid, window: window, runs: n.outgoing[:0]}
}

// compose writes what of a log fits. It returns the block that comes after it, end where that is not
// in the log, and how many blocks were kept.
func (n *Node) compose(w *writer, o *outlet, log []result, end, to int) (next, kept int) {
	for e := o.pending(log); e.n > 0; e = o.pending(log) {
		keep := to > 0 && int(e.sole) == to
		k := w.room(e.first, e.n, keep)
		if k == 0 {
			return e.first, kept
		}
		w.add(e.first, k, n.job.Recv, keep)
		o.off += k
		if keep {
			kept += k
		}
	}
	return end, kept
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
