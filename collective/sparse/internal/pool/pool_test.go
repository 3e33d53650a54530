package pool

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// tensor makes a tensor of a grid, in which the blocks in set are not zero.
func tensor(g block.Grid, dt kernel.DType, set block.Set, r *rand.Rand) []byte {
	t := make([]byte, g.Bytes())
	for b, n := set.Run(0); n > 0; b, n = set.Run(b + n) {
		for part := g.Of(t, b, n); len(part) > 0; part = part[dt.Size():] {
			x := uint32(r.IntN(2000) - 1000)
			if dt == kernel.Float32 {
				x = math.Float32bits(float32(r.NormFloat64()))
				if r.IntN(5) == 0 {
					x = 1 << 31 // -0
				}
			}
			part[0], part[1], part[2], part[3] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
		}
	}
	return t
}

// pack makes a part.
func pack(t interface{ Fatalf(string, ...any) }, g block.Grid, tensor []byte, set block.Set) []byte {
	part := make([]byte, PartBytes(g, set))
	if n := Put(part, g, tensor, set); n != len(part) {
		t.Fatalf("%d bytes in a part of %d", n, len(part))
	}
	return part
}

// Whatever blocks the ranks have, all get the reduction in rank order, bit by bit, whether a rank's share is copied
// from it or added up again; all ranks have the same number of dealt blocks, up to one; and no other memory is touched.
func TestSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, 7).Draw(t, "ranks")
		size := rapid.SampledFrom([]int{1, 16, 700}).Draw(t, "size")
		g := block.Grid{Elements: rapid.IntRange(1, 150*size).Draw(t, "elements"), Size: size, Width: 4}
		dt := rapid.SampledFrom([]kernel.DType{kernel.Float32, kernel.Int32}).Draw(t, "type")
		op := rapid.SampledFrom([]kernel.Op{kernel.Sum, kernel.Min, kernel.Max}).Draw(t, "op")
		often := rapid.SampledFrom([]int{1, 2, 5, 40}).Draw(t, "one in")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		stale := r.IntN(2) == 0
		var parts [][]byte
		want, union := make([]byte, g.Bytes()), block.NewSet(g.Blocks())
		for q := range ranks {
			set := block.NewSet(g.Blocks())
			for b := range g.Blocks() {
				if r.IntN(often) == 0 {
					set.Add(b)
				}
			}
			one := tensor(g, dt, set, r)
			if q == 0 {
				copy(want, one)
			} else {
				kernel.Reduce(op, dt, want, want, one)
			}
			union.Union(set)
			parts = append(parts, pack(t, g, one, set))
		}
		sums, results := make([]Sum, ranks), make([][]byte, ranks)
		recvs, unions := make([][]byte, ranks), make([]block.Set, ranks)
		for q := range ranks {
			recvs[q], unions[q] = make([]byte, g.Bytes()), block.NewSet(g.Blocks())
			for b := range g.Blocks() {
				if stale && r.IntN(4) == 0 || union.Has(b) {
					copy(g.Of(recvs[q], b, 1), bytes.Repeat([]byte{0xEE}, 8*size))
				}
			}
			j := Job{Grid: g, DType: dt, Op: op, Rank: q, Ranks: ranks, Recv: recvs[q], Union: unions[q]}
			if err := sums[q].Begin(j); err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Perm(ranks) {
				if err := sums[q].Take(p, parts[p]); err != nil {
					t.Fatal(err)
				}
			}
			sums[q].minSaved = 1
			sums[q].Deal()
			blocks, n := sums[q].Share(q)
			if all := sums[q].Dealt(); blocks < all/ranks || blocks > (all+ranks-1)/ranks {
				t.Fatalf("rank %d of %d has %d of %d blocks", q, ranks, blocks, all)
			}
			results[q] = make([]byte, n)
			sums[q].Reduce(results[q])
			sums[q].Fold()
		}
		for q := range ranks {
			for p := range ranks {
				if err := sums[q].Place(p, results[p]); err != nil {
					t.Fatal(err)
				}
			}
			var list kernel.Pieces
			block.Zero(&list, dt, g, recvs[q], unions[q])
			if !bytes.Equal(recvs[q], want) {
				t.Fatalf("rank %d has %x, want %x", q, recvs[q], want)
			}
			if !slices.Equal(unions[q], union) || sums[q].Union() != union.Len() {
				t.Fatalf("rank %d: union %x, want %x", q, unions[q], union)
			}
		}
	})
}

// Few blocks that all ranks have are not dealt: a second wait would take longer.
func TestFewAreNotDealt(t *testing.T) {
	g := block.Grid{Elements: 4096 * 256, Size: 256, Width: 4}
	for _, c := range []struct{ blocks, dealt int }{{10, 0}, {4096, 4096}} {
		set := block.NewSet(g.Blocks())
		set.AddRun(0, c.blocks)
		var s Sum
		if err := s.Begin(Job{Grid: g, DType: kernel.Float32, Op: kernel.Sum, Ranks: 4,
			Recv: make([]byte, g.Bytes()), Union: block.NewSet(g.Blocks())}); err != nil {
			t.Fatal(err)
		}
		part := pack(t, g, make([]byte, g.Bytes()), set)
		for q := range 4 {
			if err := s.Take(q, part); err != nil {
				t.Fatal(err)
			}
		}
		if s.Deal(); s.Dealt() != c.dealt {
			t.Errorf("of %d blocks that four ranks have %d are dealt, want %d", c.blocks, s.Dealt(), c.dealt)
		}
	}
}

// Parts that are not of the call, and results of another length, are refused.
func TestRefused(t *testing.T) {
	g := block.Grid{Elements: 1001, Size: 10, Width: 4}
	set := block.NewSet(g.Blocks())
	set.Add(3)
	set.Add(100)
	good := pack(t, g, make([]byte, g.Bytes()), set)
	var s Sum
	if err := s.Begin(Job{Grid: g, Rank: 1, Ranks: 2, Recv: make([]byte, 7)}); err == nil {
		t.Error("a result of another length is taken")
	}
	if err := s.Begin(Job{Grid: g, DType: kernel.Float32, Op: kernel.Sum, Rank: 1, Ranks: 2,
		Recv: make([]byte, g.Bytes()), Union: block.NewSet(g.Blocks())}); err != nil {
		t.Fatal(err)
	}
	beyond := slices.Clone(good)
	beyond[15] = 0x80
	for want, part := range map[string][]byte{"0 bytes": nil, "want 108": good[:len(good)-1], "of 101 blocks": good[:10],
		"beyond the last": beyond} {
		if err := s.Take(0, part); !errors.Is(err, ErrPart) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an ErrPart with %q", err, want)
		}
	}
	if err := errors.Join(s.Take(0, good), s.Take(1, good)); err != nil {
		t.Fatal(err)
	}
	s.Deal()
	s.Fold()
	if err := s.Place(0, make([]byte, 40)); !errors.Is(err, ErrPart) {
		t.Errorf("a result where none is due: %v", err)
	}
}

// Any contents of a rank's memory are safe to take as a part.
func FuzzPart(f *testing.F) {
	g := block.Grid{Elements: 995, Size: 10, Width: 4}
	set := block.NewSet(g.Blocks())
	set.Add(0)
	set.Add(99)
	f.Add(pack(f, g, make([]byte, g.Bytes()), set))
	f.Add(make([]byte, headBytes(g)))
	f.Fuzz(func(t *testing.T, part []byte) {
		var s Sum
		if err := s.Begin(Job{Grid: g, DType: kernel.Int32, Op: kernel.Max, Ranks: 2, Recv: make([]byte, g.Bytes()),
			Union: block.NewSet(g.Blocks())}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Take(0, part), s.Take(1, part)); err != nil {
			if !errors.Is(err, ErrPart) {
				t.Fatal(err)
			}
			return
		}
		s.minSaved = 1
		s.Deal()
		_, n := s.Share(0)
		s.Reduce(make([]byte, n))
		s.Fold()
		_, n = s.Share(1)
		if err := s.Place(1, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if s.Blocks(0) != s.Union() {
			t.Fatalf("%d blocks became %d", s.Blocks(0), s.Union())
		}
	})
}
