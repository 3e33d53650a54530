package block

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/kernel"
)

func TestGridCoversATensorOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Grid{Elements: rapid.IntRange(0, 500).Draw(t, "elements"), Size: rapid.IntRange(1, 70).Draw(t, "size"),
			Width: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "width")}
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
		at := 0
		for b := range g.Blocks() {
			from, to := g.Range(b, 1)
			if from != at || to <= from || to-from > g.BlockBytes() || (b < g.Blocks()-1) && to-from != g.BlockBytes() {
				t.Fatalf("block %d of %d is bytes %d to %d, after %d", b, g.Blocks(), from, to, at)
			}
			at = to
		}
		if at != g.Bytes() {
			t.Fatalf("blocks end at byte %d of %d", at, g.Bytes())
		}
		if from, to := g.Range(0, g.Blocks()); from != 0 || to != g.Bytes() {
			t.Fatalf("all blocks are bytes %d to %d of %d", from, to, g.Bytes())
		}
	})
}

func TestGridsThatCannotBe(t *testing.T) {
	for _, g := range []Grid{{}, {Elements: -1, Size: 1, Width: 1}, {Elements: 1, Size: 0, Width: 4},
		{Elements: 1, Size: 1 << 25, Width: 4},
		{Elements: 1, Size: 1, Width: 3}, {Elements: MaxBlocks + 1, Size: 1, Width: 4},
		{Elements: math.MaxInt, Size: 1 << 24, Width: 8}} {
		if err := g.Validate(); err == nil {
			t.Errorf("%+v is taken", g)
		}
	}
}

func TestSetAgainstAListOfBools(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "blocks")
		list := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "members")
		if rapid.Bool().Draw(t, "long runs") {
			for i := range list {
				list[i] = list[i-i%40]
			}
		}
		s, want := NewSet(n), 0
		for b, in := range list {
			if in {
				s.Add(b)
				want++
			}
		}
		from := rapid.IntRange(0, n).Draw(t, "run at")
		length := rapid.IntRange(0, n-from).Draw(t, "of")
		s.AddRun(from, length)
		for i := range length {
			if !list[from+i] {
				want++
			}
			list[from+i] = true
		}
		if s.Len() != want {
			t.Fatalf("%d members of %d", s.Len(), want)
		}
		for b := range n {
			if s.Has(b) != list[b] {
				t.Fatalf("block %d: %v", b, s.Has(b))
			}
			next := -1
			if i := slices.Index(list[b:], true); i >= 0 {
				next = b + i
			}
			if got := s.Next(b); got != next {
				t.Fatalf("after %d comes %d, want %d", b, got, next)
			}
			length := 0
			for next >= 0 && next+length < n && list[next+length] {
				length++
			}
			if first, got := s.Run(b); first != next || got != length {
				t.Fatalf("run after %d: %d from %d on, want %d from %d on", b, got, first, length, next)
			}
		}
	})
}

// Every block belongs to one tree; Split agrees with Tree; shares are kept over a pattern.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 6).Draw(t, "shares")
		shares[0]++
		stripe := rapid.IntRange(1, 9).Draw(t, "stripe")
		d, err := NewDeal(shares, stripe)
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, 1000).Draw(t, "blocks")
		s := NewSet(n)
		for b := range n {
			if rapid.IntRange(0, 3).Draw(t, "in") == 0 {
				s.Add(b)
			}
		}
		parts := make([]Set, len(shares))
		for tree := range parts {
			parts[tree] = NewSet(n)
		}
		piece := rapid.IntRange(0, n).Draw(t, "piece")
		d.Split(s, 0, piece, parts)
		d.Split(s, piece, n, parts)
		union := NewSet(n)
		for tree := range shares {
			part := parts[tree]
			for b := range n {
				if part.Has(b) != (s.Has(b) && d.Tree(b) == tree) {
					t.Fatalf("tree %d, block %d: %v", tree, b, part.Has(b))
				}
			}
			union.Union(part)
		}
		if !slices.Equal(union, s) {
			t.Fatal("the parts are not the whole")
		}
	})
}

func TestSharesAreKept(t *testing.T) {
	d, err := NewDeal([]float64{5, 0, 2, 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	count := make([]int, 4)
	for b := range 64 * 3 {
		count[d.Tree(b)]++
	}
	if want := []int{120, 0, 48, 24}; !slices.Equal(count, want) {
		t.Errorf("blocks of the trees: %v, want %v", count, want)
	}
	for b := range 64 * 3 { // clusters of a few stripes load all trees that have a share
		if near := []int{d.Tree(b), d.Tree(b + 3), d.Tree(b + 6), d.Tree(b + 9)}; !slices.Contains(near, 2) &&
			!slices.Contains(near, 3) {
			t.Errorf("from block %d on four stripes go to tree %v", b, near)
		}
	}
	for _, shares := range [][]float64{nil, {0, 0}, {1, -1}, {math.NaN()}, {math.Inf(1)}} {
		if _, err := NewDeal(shares, 1); err == nil {
			t.Errorf("shares %v are taken", shares)
		}
	}
	if _, err := NewDeal([]float64{1}, 0); err == nil {
		t.Error("stripes of no blocks are taken")
	}
}

// A block that a rank did not send is +0: the result is that of a reduction over
// all ranks, with zeros in their places.
func TestCombineIsTheDenseReduction(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	special := []uint32{0, 1 << 31, 0x7FC00000, 0xFFC00123, 0x7F800000, 0xFF800000, 1, 0x80000001, 0x3F800000, 0xBF800000}
	for range 2000 {
		op := []kernel.Op{kernel.Sum, kernel.Min, kernel.Max}[r.IntN(3)]
		dt := []kernel.DType{kernel.Float32, kernel.Int32}[r.IntN(2)]
		ranks, n := 1+r.IntN(5), 4*(1+r.IntN(1200))
		want := make([]byte, n)
		var srcs [][]byte
		for v := range ranks {
			part := make([]byte, n)
			if r.IntN(2) == 0 {
				for i := 0; i < n; i += 4 {
					x := special[r.IntN(len(special))]
					part[i], part[i+1], part[i+2], part[i+3] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
				}
				srcs = append(srcs, part)
			}
			if v == 0 {
				copy(want, part)
			} else {
				kernel.Reduce(op, dt, want, want, part)
			}
		}
		got := bytes.Repeat([]byte{0xA5}, n)
		if len(srcs) > 0 && r.IntN(2) == 0 {
			got = srcs[0] // in place
		}
		var p kernel.Pieces
		p.Add(0, n, len(srcs), len(srcs) < ranks && ZeroCounts(op, dt))
		for q := range srcs {
			p.From(q, 0)
		}
		if len(srcs) == 0 {
			clear(got)
		} else {
			p.Run(op, dt, got, srcs, false)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%v %v of %d ranks, %d of which sent %d bytes", op, dt, ranks, len(srcs), n)
		}
	}
}
