package merge

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// random returns tensors of any type, density and length.
func random(ranks int, r *rand.Rand) *Tensors {
	g := block.Grid{Elements: r.IntN(300), Size: 1 + r.IntN(6)}
	dt, op := Types[r.IntN(6)], Ops[r.IntN(3)]
	return New(ranks, g, op, dt).Random(r, r.Float64(), r.Float64()*0.1)
}

// shapes are trees of n ranks: a chain from its end and from its middle, a star,
// and random ones.
func shapes(n int, r *rand.Rand) map[string][]int {
	chain, star, middle := make([]int, n), make([]int, n), make([]int, n)
	for v := range n {
		chain[v] = v - 1
		star[v] = n / 2
		middle[v] = v + 1
		if v > n/2 {
			middle[v] = v - 1
		}
	}
	star[n/2], middle[n/2] = -1, -1
	return map[string][]int{"chain": chain, "star": star, "from the middle": middle, "random": randomTree(n, r)}
}

func TestCases(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 7} {
		r := seeded(uint64(ranks))
		for name, parent := range shapes(ranks, r) {
			for _, c := range Cases(ranks, 4, 60) {
				t.Run(fmt.Sprintf("%d ranks, %s, %s", ranks, name, c.Name), func(t *testing.T) {
					tree := newTree(parent, 2, 150)
					tree.allReduce(t, 1, c.Tensors, r, false)
					tree.allReduce(t, 2, c.Tensors, r, true)
				})
			}
		}
	}
}

func TestTensorAfterTensor(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		r := seeded(uint64(ranks))
		tree := newTree(randomTree(ranks, r), 2, 100)
		for i, c := range TwoOnOneSlot(ranks) {
			tree.allReduce(t, uint32(i), c.Tensors, r, i%2 == 0)
		}
	}
}

func TestRandomTrees(t *testing.T) {
	for seed := range uint64(400) {
		r := seeded(seed)
		ranks := 1 + r.IntN(7)
		tree := newTree(randomTree(ranks, r), 1+r.IntN(3), r.IntN(400))
		for number := range uint32(2) {
			tree.allReduce(t, number, random(ranks, r), r, r.IntN(2) == 0)
		}
	}
}

// Blocks dealt to several trees, each with links of its own, come together in
// one tensor.
func TestSeveralTrees(t *testing.T) {
	for seed := range uint64(200) {
		r := seeded(seed)
		ranks := 1 + r.IntN(6)
		x := random(ranks, r)
		shares := make([]float64, 1+r.IntN(4))
		for i := range shares {
			shares[i] = float64(1 + r.IntN(3))
		}
		d, err := block.NewDeal(shares, 1+r.IntN(5))
		if err != nil {
			t.Fatal(err)
		}
		send, recv := x.Buffers(r.IntN(2) == 0)
		var trees []*tree
		for i := range shares {
			trees = append(trees, newTree(randomTree(ranks, r), 1+r.IntN(3), r.IntN(400)))
			trees[i].begin(t, 7, x, recv, send, d, i)
		}
		drive(t, r, trees...)
		for v := range recv {
			union := block.NewSet(x.Grid.Blocks())
			for _, tree := range trees {
				union.Union(tree.nodes[v].job.Union)
			}
			zeroed(x.Grid, recv[v], union)
		}
		for b := range x.Grid.Blocks() {
			from, to := x.Grid.Range(b, 1)
			want := x.WantAlong(trees[d.Tree(b)].parent)
			for v := range recv {
				if string(recv[v][from:to]) != string(want[from:to]) {
					t.Fatalf("seed %d, rank %d, block %d of tree %d: % x, want % x", seed, v, b, d.Tree(b), recv[v][from:to],
						want[from:to])
				}
			}
		}
	}
}

// counted runs an AllReduce of 200 blocks of 16 bytes and returns the counts of the ranks.
func counted(t *testing.T, parent []int, put func(x *Tensors, r *rand.Rand)) []block.Counts {
	t.Helper()
	r := seeded(1)
	x := New(len(parent), block.Grid{Elements: 800, Size: 4}, kernel.Sum, kernel.Float32)
	put(x, r)
	tree := newTree(parent, 2, 1<<20)
	tree.allReduce(t, 1, x, r, false)
	var all []block.Counts
	for _, n := range tree.nodes {
		all = append(all, n.Counts())
	}
	return all
}

// An edge carries a union upwards, and downwards the whole union without the blocks that came up only over this edge.
func TestWhatAnEdgeCarries(t *testing.T) {
	// 0 - 1 - 2, 0 is the root; 2 has blocks 0 to 9, 1 has 5 to 14, 0 has 100 to 104.
	all := counted(t, []int{-1, 0, 1}, func(x *Tensors, r *rand.Rand) {
		for b := range 10 {
			x.Put(2, b, r)
			x.Put(1, 5+b, r)
		}
		for b := range 5 {
			x.Put(0, 100+b, r)
		}
	})
	for v, want := range []block.Counts{
		{SentBlocks: 5, ReceivedBlocks: 15, Union: 20},           // all of rank 1's blocks are final there
		{SentBlocks: 15 + 15, ReceivedBlocks: 10 + 5, Union: 20}, // 0 to 4 are only rank 2's
		{SentBlocks: 10, ReceivedBlocks: 15, Union: 20},
	} {
		got := all[v]
		want.SentChunks, want.SentBytes, want.ReceivedChunks, want.ReceivedBytes = got.SentChunks, got.SentBytes,
			got.ReceivedChunks, got.ReceivedBytes
		if got != want {
			t.Errorf("rank %d: %+v, want %+v", v, got, want)
		}
	}
}

// A block is not sent back to its only owner: disjoint tensors on a star cost the root the blocks that the others lack,
// and no more.
func TestOnlyOwnerGetsNothingBack(t *testing.T) {
	all := counted(t, []int{-1, 0, 0, 0}, func(x *Tensors, r *rand.Rand) {
		for v := 1; v < 4; v++ {
			for b := range 10 {
				x.Put(v, 40*v+b, r)
			}
		}
	})
	if root := all[0]; root.SentBlocks != 3*20 || root.ReceivedBlocks != 30 {
		t.Errorf("the root: %+v", root)
	}
}

// Where the union is full a stream is one run: eight bytes in addition to the blocks of a chunk, and the same chunk for
// all children.
func TestFullUnionIsOneRun(t *testing.T) {
	all := counted(t, []int{-1, 0, 0}, func(x *Tensors, r *rand.Rand) { x.Random(r, 1) })
	for v := 1; v < 3; v++ {
		c := all[v]
		if over := c.SentBytes - 800*4; c.SentBlocks != 200 || over != c.SentChunks*(HeaderBytes+RunBytes) {
			t.Errorf("rank %d: %+v, %d bytes in addition to the blocks", v, c, over)
		}
		if over := c.ReceivedBytes - 800*4; c.ReceivedBlocks != 200 || over != c.ReceivedChunks*(HeaderBytes+RunBytes) {
			t.Errorf("rank %d: %+v, %d bytes in addition to the blocks", v, c, over)
		}
	}
}

// A worker that is a leaf sends its blocks, once, and headers.
func TestALeafSendsItsBlocksOnce(t *testing.T) {
	all := counted(t, []int{-1, 0}, func(x *Tensors, r *rand.Rand) { x.Random(r, 0.2) })
	if c := all[1]; c.SentBytes > c.SentBlocks*(16+RunBytes)+c.SentChunks*HeaderBytes {
		t.Errorf("%+v", c)
	}
}

// Blocks with few non-zero elements are sent without the zeros, bit for bit, along any tree; dense ones are sent in
// full.
func TestThinBlocks(t *testing.T) {
	for seed := range uint64(20) {
		r := seeded(seed)
		ranks := 2 + r.IntN(5)
		x := New(ranks, block.Grid{Elements: 20_011, Size: 256}, kernel.Sum, kernel.Float32)
		sent, whole := 0, 0
		for v := range ranks {
			for b := range x.Grid.Blocks() {
				if r.IntN(3) == 0 {
					continue
				}
				x.Put(v, b, r)
				for at, data := 0, x.Grid.Of(x.Send[v], b, 1); at < len(data); at += 4 {
					if b%9 > 0 && r.IntN(50) > 0 {
						clear(data[at : at+4])
						data[at+3] = byte(r.IntN(80)/79) << 7 // a few of them are -0
					}
				}
			}
		}
		tree := newTree(randomTree(ranks, r), 2, 9000)
		tree.allReduce(t, 1, x, r, seed%2 == 0)
		for v, n := range tree.nodes {
			if v%2 == 0 {
				c := n.Counts()
				sent, whole = sent+c.SentBytes, whole+c.SentBlocks*1024
			}
		}
		if sent > whole/2 {
			t.Errorf("seed %d: %d bytes are squeezed to %d", seed, whole, sent)
		}
	}
}

// A root without a tensor adds up the blocks of the others, and contributes nothing: the order is that of the ranks,
// wherever the root would be among them.
func TestServedStars(t *testing.T) {
	for seed := range uint64(60) {
		r := seeded(seed)
		ranks := 2 + r.IntN(4)
		x := random(ranks, r)
		_, recv := x.Buffers(false)
		before, serves := r.IntN(ranks), r.IntN(2) == 0
		parent, order := slices.Repeat([]int{0}, ranks+1), []int{before}
		if parent[0] = -1; serves {
			order[0] = -1
		}
		for v := range ranks {
			if v != before || serves {
				order = append(order, v)
			}
		}
		tree := newTree(parent[:len(order)], 2, 300)
		var unions []block.Set
		for k, v := range order {
			j := Job{Tensor: 1, Grid: x.Grid, Op: x.Op, DType: x.DType, Union: block.NewSet(x.Grid.Blocks())}
			if v < 0 {
				j.Blocks, j.Recv = block.NewSet(x.Grid.Blocks()), make([]byte, x.Grid.Bytes())
			} else {
				j.Blocks, j.Send, j.Recv, j.Before = x.Sets[v], x.Send[v], recv[v], v
			}
			unions = append(unions, j.Union)
			if err := tree.nodes[k].Begin(j); err != nil {
				t.Fatal(err)
			}
			tree.window = max(tree.window, tree.nodes[k].LeastWindow())
		}
		drive(t, r, tree)
		for v := range recv {
			zeroed(x.Grid, recv[v], unions[0])
			if d := x.Differ(v, recv[v], x.Want()); d != "" {
				t.Fatalf("seed %d, serves %v: %s", seed, serves, d)
			}
		}
	}
}
