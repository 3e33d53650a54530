package sparse

import (
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/internal/kernel"
)

// presence reports whether a rank has a block in a run.
type presence func(rank, b int) bool

// everywhere and scattered are the patterns of Verify's runs: all ranks have all blocks;
// some, one or none has a block.
func everywhere(int, int) bool { return true }

func scattered(rank, b int) bool { return symbol(rank, b)>>40%3 == 0 }

// symbol returns the contents of rank's block b: sums of several of them, each taken any number of times, almost never
// coincide.
func symbol(rank, b int) uint64 {
	x := uint64(rank+1)<<32 | uint64(b+1)
	for range 2 {
		x ^= x >> 30
		x *= 0xBF58476D1CE4E5B9
		x ^= x >> 27
		x *= 0x94D049BB133111EB
	}
	return x ^ x>>31
}

// chunkOf is a chunk in flight in a run: tamper may change it, for tests.
type chunkOf struct {
	src, dst int
	up       bool
	bytes    []byte
}

// run runs all ranks of all trees on a tensor of one number per block, over links with the given number of slots of one
// block each. tamper is nil except in tests: it returns the chunks that arrive in place of a chunk, and where.
func (p *Plan) run(d dealer, has presence, slots int, tamper func(chunkOf) []chunkOf) *Error {
	n := block.Turn(len(p.Trees)) + 1
	grid := block.Grid{Elements: n, Size: 1, Width: 8}
	sets := make([]block.Set, p.Size)
	send, recv := make([][]byte, p.Size), make([][]byte, p.Size)
	for v := range p.Size {
		sets[v], send[v], recv[v] = block.NewSet(n), make([]byte, grid.Bytes()), make([]byte, grid.Bytes())
		for b := range n {
			binary.NativeEndian.PutUint64(recv[v][8*b:], symbol(-7, b)) // a value that is no result
			if has(v, b) {
				sets[v].Add(b)
				binary.NativeEndian.PutUint64(send[v][8*b:], symbol(v, b))
			}
		}
	}
	unions := make([]block.Set, p.Size)
	for v := range unions {
		unions[v] = block.NewSet(n)
	}
	for i := range p.Trees {
		r := newTreeRun(p, i, min(slots, p.Slots), tamper)
		for v := range p.Size {
			err := r.nodes[v].Begin(merge.Job{Tensor: uint32(i + 1), Grid: grid, Op: kernel.Sum, DType: kernel.Int64,
				Blocks: partsOf(d, sets[v], len(p.Trees), n)[i], Send: send[v], Recv: recv[v], Union: unions[v]})
			if err != nil {
				return wrong(Refused, i, v, "%v", err)
			}
		}
		if e := r.run(); e != nil {
			return e
		}
	}
	for v := range p.Size {
		block.Zero(new(kernel.Pieces), kernel.Int64, grid, recv[v], unions[v])
	}
	return compareSums(p, n, has, recv)
}

// partsOf returns, for each tree, the blocks that it carries, of the n blocks of s.
func partsOf(d dealer, s block.Set, trees, n int) []block.Set {
	parts := make([]block.Set, trees)
	for i := range parts {
		parts[i] = block.NewSet(n)
	}
	d.Split(s, 0, n, parts)
	return parts
}

// compareSums compares the results with the sums.
func compareSums(p *Plan, blocks int, has presence, recv [][]byte) *Error {
	for b := range blocks {
		sum := uint64(0)
		for v := range p.Size {
			if has(v, b) {
				sum += symbol(v, b)
			}
		}
		for v := range p.Size {
			if got := binary.NativeEndian.Uint64(recv[v][8*b:]); got != sum {
				return wrong(WrongResult, -1, v, "block %d is %#x, want %#x, the sum of all ranks with each once", b, got, sum)
			}
		}
	}
	return nil
}

// treeRun runs the ranks' machines of one tree.
type treeRun struct {
	plan   *Plan
	number int
	slots  int
	tamper func(chunkOf) []chunkOf

	nodes  []*merge.Node
	parent []int
	kids   [][]int
	place  []int // by rank: its index among its parent's children

	up, down [][][]byte // by the lower rank of the link: chunks in flight
	held     [][]byte   // by child: chunks that its parent still reads
	free     [][]byte   // memory for chunks
	window   int        // bytes of a chunk
}

func newTreeRun(p *Plan, number, slots int, tamper func(chunkOf) []chunkOf) *treeRun {
	n := p.Size
	r := &treeRun{plan: p, number: number, slots: slots, tamper: tamper, nodes: make([]*merge.Node, n),
		parent: p.Trees[number].Parent,
		kids:   make([][]int, n), place: make([]int, n), up: make([][][]byte, n), down: make([][][]byte, n),
		held: make([][]byte, n)}
	for v, u := range r.parent {
		if u >= 0 {
			r.place[v] = len(r.kids[u])
			r.kids[u] = append(r.kids[u], v)
		}
	}
	for v := range r.nodes {
		r.nodes[v] = merge.NewNode(len(r.kids[v]), r.parent[v] < 0)
	}
	return r
}

// run lets the ranks make progress, in turn, until all are done.
func (r *treeRun) run() *Error {
	r.window = r.nodes[0].LeastWindow()
	for moved := true; moved; {
		moved = false
		for v := range r.nodes {
			did, e := r.step(v)
			if e != nil {
				return e
			}
			moved = moved || did
		}
	}
	for v, n := range r.nodes {
		if !n.Done() {
			return wrong(Stuck, r.number, v, "%s", r.waiting(v))
		}
		if len(r.up[v])+len(r.down[v]) > 0 {
			return wrong(Stuck, r.number, v, "%d chunks for its parent and %d from it are left", len(r.up[v]), len(r.down[v]))
		}
	}
	return nil
}

// waiting returns the message that a rank that is not done waits for.
func (r *treeRun) waiting(v int) string {
	for i, c := range r.kids[v] {
		if r.nodes[v].NeedsChunk(i) {
			return fmt.Sprintf("it waits for blocks of rank %d", c)
		}
	}
	if r.nodes[v].ExpectsResult() {
		return fmt.Sprintf("it waits for results of rank %d", r.parent[v])
	}
	return "it waits for room to send"
}

// step makes one step of each kind on rank v.
func (r *treeRun) step(v int) (moved bool, e *Error) {
	n := r.nodes[v]
	refused := func(err error) *Error { return wrong(Refused, r.number, v, "%v", err) }
	for i, c := range r.kids[v] {
		if !n.NeedsChunk(i) || len(r.up[c]) == 0 {
			continue
		}
		r.drop(r.held[c])
		r.held[c] = r.take(r.up, c)
		if err := n.Feed(i, r.held[c]); err != nil {
			return moved, refused(err)
		}
		moved = true
	}
	moved = n.Merge(1) || moved
	if len(r.down[v]) > 0 {
		p := r.take(r.down, v)
		if err := n.Down(p); err != nil {
			return moved, refused(err)
		}
		r.drop(p)
		moved = true
	}
	if u := r.parent[v]; u >= 0 && len(r.up[v]) < r.slots {
		moved = r.send(v, u, true, n.Up) || moved
	}
	for i, c := range r.kids[v] {
		if len(r.down[c]) < r.slots {
			moved = r.send(v, c, false, func(w []byte) int { return n.ToChild(i, w) }) || moved
		}
	}
	return moved, nil
}

// send composes a chunk and puts it in flight.
func (r *treeRun) send(src, dst int, up bool, compose func([]byte) int) bool {
	if len(r.free) == 0 {
		r.free = append(r.free, make([]byte, r.window))
	}
	w := r.free[len(r.free)-1][:r.window]
	size := compose(w)
	if size == 0 {
		return false
	}
	r.free = r.free[:len(r.free)-1]
	list := []chunkOf{{src, dst, up, w[:size]}}
	if r.tamper != nil {
		list = r.tamper(list[0])
	}
	for _, c := range list {
		if c.up {
			r.up[c.src] = append(r.up[c.src], c.bytes)
		} else {
			r.down[c.dst] = append(r.down[c.dst], c.bytes)
		}
	}
	return true
}

// take returns the first chunk in flight on a link.
func (r *treeRun) take(of [][][]byte, v int) []byte {
	p := of[v][0]
	of[v] = of[v][:copy(of[v], of[v][1:])]
	return p
}

// drop reuses the memory of a chunk, unless a test has copied chunks.
func (r *treeRun) drop(p []byte) {
	if p != nil && r.tamper == nil {
		r.free = append(r.free, p[:cap(p)])
	}
}
