package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Pieces have the bits of ReduceMany, whatever their length, number of sources and
// places, and nothing else is written.
func TestPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, dt := range []DType{Float16, BFloat16, Float32, Float64, Int32, Int64} {
		for round := range 40 {
			op := []Op{Sum, Min, Max}[r.IntN(3)]
			size, ranks := dt.Size(), 1+r.IntN(10)
			srcs := make([][]byte, ranks)
			for q := range srcs {
				srcs[q] = make([]byte, 40000)
				for i := range srcs[q] {
					srcs[q][i] = byte(r.Uint32())
				}
			}
			dst := bytes.Repeat([]byte{0xA5}, 30000+r.IntN(64)*8)
			want := bytes.Clone(dst)
			var p Pieces
			for at := 0; ; {
				at += r.IntN(50) * size
				n := (1 + r.IntN([]int{4, 300, 9000 / size}[r.IntN(3)])) * size
				if at+n > len(dst) {
					break
				}
				var parts [][]byte
				order := r.Perm(ranks)[:r.IntN(ranks+1)]
				zero := r.IntN(2) == 0 || len(order) == 0
				p.Add(at, n, len(order), zero)
				for _, q := range order {
					from := r.IntN((len(srcs[q])-n)/size) * size
					p.From(q, from)
					parts = append(parts, srcs[q][from:from+n])
				}
				if zero {
					parts = append(parts, make([]byte, n))
				}
				ReduceMany(op, dt, want[at:at+n], parts, false)
				at += n
			}
			for _, l := range levels() {
				if l > levelGo && ranks > maxNative {
					continue
				}
				for _, stream := range []bool{false, true} {
					got := bytes.Repeat([]byte{0xA5}, len(dst))
					if l == levelGo {
						p.runGo(op, dt, got, srcs, stream)
					} else {
						piecesNative(l, op, dt, got, srcs, p.words, stream)
					}
					if !bytes.Equal(got, want) {
						t.Fatalf("%v %v of %d sources, round %d, with %v, stream %v", op, dt, ranks, round, l, stream)
					}
				}
			}
			p.Run(op, dt, dst, srcs, true)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%v %v of %d sources, round %d", op, dt, ranks, round)
			}
		}
	}
}

// A piece that leaves its memory is refused before anything is written.
// A piece may have more sources than C accepts, and read the bytes that it writes.
func TestWidePiece(t *testing.T) {
	const sources = widePiece + 50
	src, dst := make([]byte, 8*sources), make([]byte, 16)
	want := int64(0)
	var p Pieces
	p.Add(8, 8, sources, false)
	for i := range sources {
		binary.NativeEndian.PutUint64(src[8*i:], uint64(i*i))
		want += int64(i * i)
		p.From(0, 8*i)
	}
	p.Run(Sum, Int64, dst, [][]byte{src}, false)
	p.Reset()
	p.Add(8, 8, 2, false)
	p.From(1, 8)
	p.From(0, 8*7)
	p.Run(Sum, Int64, dst, [][]byte{src, dst}, false)
	if got := int64(binary.NativeEndian.Uint64(dst[8:])); got != want+49 || binary.NativeEndian.Uint64(dst) != 0 {
		t.Errorf("%d, want %d", got, want+49)
	}
}

func TestPiecesOutside(t *testing.T) {
	src := make([]byte, 64)
	for i, p := range []func(p *Pieces){
		func(p *Pieces) { p.Add(60, 8, 1, false); p.From(0, 0) },
		func(p *Pieces) { p.Add(0, 8, 1, false); p.From(0, 60) },
		func(p *Pieces) { p.Add(0, 8, 1, false); p.From(1, 0) },
		func(p *Pieces) { p.Add(0, 6, 1, false); p.From(0, 0) },
		func(p *Pieces) { p.Add(0, 8, 2, false); p.From(0, 0) },
		func(p *Pieces) { p.Add(0, 8, 0, false) },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken")
				}
			}()
			var list Pieces
			p(&list)
			list.Run(Sum, Float32, make([]byte, 64), [][]byte{src}, false)
		})
	}
}
