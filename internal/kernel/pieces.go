package kernel

import "fmt"

// Pieces is a list of reductions, each of some memory of the same sources, that one call runs: its overhead is that of
// a single call. The zero Pieces is empty. It is for one goroutine at a time.
type Pieces struct {
	words []uint64
	wide  bool     // a piece has more sources than C accepts
	parts [][]byte // of runGo
}

// A piece is two words and one per source: its place in the destination, with the number of sources and whether +0 is
// the last; its length in bytes; and the source and the place in it.
const (
	pieceKinds   = 48 // bits for a place
	pieceZero    = 1 << 63
	pieceSources = 1<<15 - 1
	widePiece    = 256 // sources
)

// Reset makes p empty.
func (p *Pieces) Reset() { p.words, p.wide = p.words[:0], false }

// Len returns the size of p in words.
func (p *Pieces) Len() int { return len(p.words) }

// Add begins a piece: n bytes of the destination, from byte at on, receive the combination of the sources that From
// adds, in this order, and with zero +0 as the last. There are at most 32767 sources, and with none of them zeros are
// written.
func (p *Pieces) Add(at, n, sources int, zero bool) {
	w := uint64(at) | uint64(sources)<<pieceKinds
	if zero {
		w |= pieceZero
	}
	p.words = append(p.words, w, uint64(n))
	p.wide = p.wide || sources >= widePiece
}

// From adds a source to the piece that Add began: from byte at of the q-th on.
func (p *Pieces) From(q, at int) {
	p.words = append(p.words, uint64(at)|uint64(q)<<pieceKinds)
}

// zeros is combined with a piece block by block; it is never written.
var zeros [4096]byte

// Run does all pieces, one after the other, as ReduceMany would: dst is their destination, srcs their sources, which
// must not overlap it in part: a piece may read the very bytes that it writes. With stream it is written past the
// caches: see Copy. It panics if a piece is not in them.
func (p *Pieces) Run(op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	if !fits(dt, dst) || !op.Takes(dt) || op == Avg {
		refuse(op, dt, dst, srcs...)
	}
	op, dt = op.on(dt)
	p.check(dt, dst, srcs)
	if len(p.words) == 0 {
		return
	}
	if best == levelGo || len(srcs) > maxNative || p.wide {
		p.runGo(op, dt, dst, srcs, stream)
		return
	}
	piecesNative(best, op, dt, dst, srcs, p.words, stream)
}

func (p *Pieces) check(dt DType, dst []byte, srcs [][]byte) {
	size := uint64(dt.Size())
	inside := func(at, n uint64, b []byte) bool { return at <= uint64(len(b)) && n <= uint64(len(b))-at }
	for w := p.words; len(w) > 0; {
		at, n, k := place(w[0]), w[1], int(w[0]>>pieceKinds&pieceSources)
		if !inside(at, n, dst) || n%size != 0 || w[0]&pieceZero == 0 && k == 0 || len(w) < 2+k {
			panic(fmt.Sprintf("kernel: a piece of %d bytes at %d of %d, of %d sources", n, at, len(dst), k))
		}
		for _, s := range w[2 : 2+k] {
			if q := s >> pieceKinds; q >= uint64(len(srcs)) || !inside(place(s), n, srcs[q]) {
				panic(fmt.Sprintf("kernel: a piece of %d bytes at %d of source %d of %d", n, place(s), q, len(srcs)))
			}
		}
		w = w[2+k:]
	}
}

func place(w uint64) uint64 { return w & (1<<pieceKinds - 1) }

// runGo is Run by calls of ReduceMany.
func (p *Pieces) runGo(op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	for w := p.words; len(w) > 0; {
		at, n, k := int(place(w[0])), int(w[1]), int(w[0]>>pieceKinds&pieceSources)
		for from := 0; from < n; from += len(zeros) {
			size := min(len(zeros), n-from)
			p.parts = p.parts[:0]
			for _, s := range w[2 : 2+k] {
				begin := int(place(s)) + from
				p.parts = append(p.parts, srcs[s>>pieceKinds][begin:begin+size])
			}
			if w[0]&pieceZero != 0 {
				p.parts = append(p.parts, zeros[:size])
			}
			ReduceMany(op, dt, dst[at+from:at+from+size], p.parts, stream)
		}
		w = w[2+k:]
	}
	clear(p.parts)
}
