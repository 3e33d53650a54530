package merge

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// tree runs a Node for every rank of a tree, over links with the given number of slots.
type tree struct {
	parent []int
	place  []int // by rank: its index among its parent's children
	kids   [][]int
	nodes  []*Node
	up     [][][]byte // by rank: chunks for the parent
	down   [][][]byte // by rank: chunks from the parent
	slots  int
	window int // bytes; raised to the least size of a chunk
	held   [][]byte
}

func newTree(parent []int, slots, window int) *tree {
	n := len(parent)
	t := &tree{parent: parent, place: make([]int, n), kids: make([][]int, n), up: make([][][]byte, n),
		down: make([][][]byte, n),
		held: make([][]byte, n), slots: slots, window: window}
	for v, p := range parent {
		if p >= 0 {
			t.place[v] = len(t.kids[p])
			t.kids[p] = append(t.kids[p], v)
		}
	}
	for v, p := range parent {
		t.nodes = append(t.nodes, NewNode(len(t.kids[v]), p < 0))
	}
	return t
}

// begin starts the job of one tree; recv is shared by the trees of a Deal.
func (t *tree) begin(tb testing.TB, number uint32, x *Tensors, recv [][]byte, send [][]byte, d *block.Deal,
	which int) {
	tb.Helper()
	for v, n := range t.nodes {
		set := x.Sets[v]
		if d != nil {
			set = partOf(d, set, which, x.Grid.Blocks())
		}
		j := Job{Tensor: number, Grid: x.Grid, Op: x.Op, DType: x.DType, Blocks: set, Send: send[v],
			Recv: recv[v], Union: block.NewSet(x.Grid.Blocks()), Thin: v%2 == 0}
		if v%3 != 0 { // some find their blocks during the merge
			f := &slowFinder{all: set, found: block.NewSet(x.Grid.Blocks()), blocks: x.Grid.Blocks(), piece: v + int(number)%5}
			j.Blocks, j.Finder = f.found, f
		}
		if err := n.Begin(j); err != nil {
			tb.Fatal(err)
		}
		if t.held[v] = nil; t.window < n.LeastWindow() {
			t.window = n.LeastWindow()
		}
	}
}

// slowFinder finds a few blocks at a time.
type slowFinder struct {
	all, found           block.Set
	known, blocks, piece int
}

func (f *slowFinder) Known() int { return f.known }

func (f *slowFinder) Find() {
	for range f.piece {
		if f.known < f.blocks && f.all.Has(f.known) {
			f.found.Add(f.known)
		}
		f.known = min(f.known+1, f.blocks)
	}
}

// step lets rank v make progress with one kind of work and reports whether there was any.
func (t *tree) step(tb testing.TB, v, what int) bool {
	tb.Helper()
	n := t.nodes[v]
	check := func(err error) {
		if err != nil {
			tb.Fatalf("rank %d: %v", v, err)
		}
	}
	switch what {
	case 0:
		for i, c := range t.kids[v] {
			if len(t.up[c]) > 0 && n.NeedsChunk(i) {
				for j := range t.held[c] {
					t.held[c][j] = Garbage // a chunk that is no longer in use is not read again
				}
				t.held[c] = t.up[c][0]
				t.up[c] = t.up[c][1:]
				check(n.Feed(i, t.held[c]))
				return true
			}
		}
	case 1:
		return n.Merge(1 + 3*n.job.Grid.BlockBytes())
	case 2:
		if t.parent[v] >= 0 && len(t.up[v]) < t.slots {
			w := make([]byte, t.window)
			if k := n.Up(w); k > 0 {
				t.up[v] = append(t.up[v], w[:k])
				return true
			}
		}
	case 3:
		if len(t.down[v]) > 0 {
			p := t.down[v][0]
			t.down[v] = t.down[v][1:]
			check(n.Down(p))
			return true
		}
	case 4:
		for i, c := range t.kids[v] {
			if len(t.down[c]) < t.slots {
				w := make([]byte, t.window)
				if k := n.ToChild(i, w); k > 0 {
					t.down[c] = append(t.down[c], w[:k])
					return true
				}
			}
		}
	}
	return false
}

func (t *tree) done() bool {
	for _, n := range t.nodes {
		if !n.Done() {
			return false
		}
	}
	return true
}

// drive drives trees in a random order until all are done.
func drive(tb testing.TB, r *rand.Rand, trees ...*tree) {
	tb.Helper()
	type work struct{ tree, rank, what int }
	var all []work
	for i, t := range trees {
		for v := range t.nodes {
			for what := range 5 {
				all = append(all, work{i, v, what})
			}
		}
	}
	for {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		moved, done := false, true
		for _, w := range all {
			for trees[w.tree].step(tb, w.rank, w.what) {
				moved = true
				if r.IntN(3) == 0 {
					break
				}
			}
		}
		for _, t := range trees {
			done = done && t.done()
		}
		switch {
		case done:
			for _, t := range trees {
				for v := range t.nodes {
					if len(t.up[v])+len(t.down[v]) > 0 {
						tb.Fatalf("rank %d: %d chunks up and %d down that were not received", v, len(t.up[v]), len(t.down[v]))
					}
				}
			}
			return
		case !moved:
			tb.Fatal("nobody gets on")
		}
	}
}

// allReduce runs x along one tree and compares the result with the oracle.
func (t *tree) allReduce(tb testing.TB, number uint32, x *Tensors, r *rand.Rand, inPlace bool) {
	tb.Helper()
	send, recv := x.Buffers(inPlace)
	t.begin(tb, number, x, recv, send, nil, 0)
	drive(tb, r, t)
	want := x.WantAlong(t.parent)
	for v := range recv {
		zeroed(x.Grid, recv[v], t.nodes[v].job.Union)
		if d := x.Differ(v, recv[v], want); d != "" {
			tb.Fatal(d)
		}
		if !inPlace && !bytes.Equal(send[v], x.Send[v]) {
			tb.Fatalf("rank %d: its tensor was written to", v)
		}
	}
}

// zeroed writes zeros to the blocks of a result outside the union, which a Node does not touch.
func zeroed(g block.Grid, recv []byte, union block.Set) {
	for b := range g.Blocks() {
		if !union.Has(b) {
			clear(g.Of(recv, b, 1))
		}
	}
}

// partOf returns the blocks that a tree carries, of the n blocks of s.
func partOf(d *block.Deal, s block.Set, tree, n int) block.Set {
	part := block.NewSet(n)
	for b := range n {
		if s.Has(b) && d.Tree(b) == tree {
			part.Add(b)
		}
	}
	return part
}

// randomTree returns the parents of a random tree.
func randomTree(n int, r *rand.Rand) []int {
	order := r.Perm(n)
	parent := make([]int, n)
	parent[order[0]] = -1
	for i := 1; i < n; i++ {
		parent[order[i]] = order[r.IntN(i)]
	}
	return parent
}
