package block

import (
	"encoding/binary"
	"errors"
)

// Blocks in which most elements are zero are sent without these: first the words of 32 bits that are not zero, then a
// byte for each with the number of zero words before it, and then the number of words, u32 little endian. A byte of
// maxGap stands for that number of zero words and no word. Every bit is kept, including that of -0.
const (
	thinWord  = 4
	maxGap    = 255
	lineBytes = 64 // size of a line, examined at once
)

// Thin squeezes blocks, in their place, and spreads them again. It keeps memory: one goroutine at a
// time may use it.
type Thin struct {
	places []uint32 // of words that are not zero
	gaps   []byte   // before them
	blocks []byte   // that were spread
}

// Thinned returns the part of their bytes that blocks are sent with, given the part of their elements that is not zero.
func Thinned(part float64) float64 {
	if size := part * (thinWord + 1) / thinWord; size <= 0.5 {
		return size
	}
	return 1
}

// probes is the number of words that are examined before blocks are searched: dense ones cost no more.
const probes = 64

// Squeeze squeezes blocks if that makes them at most half as long, and returns their length afterwards.
func (t *Thin) Squeeze(blocks []byte) int {
	words := len(blocks) / thinWord
	if len(blocks)%thinWord != 0 || words < probes {
		return len(blocks)
	}
	hits := 0
	for i := range probes {
		if binary.NativeEndian.Uint32(blocks[i*words/probes*thinWord:]) != 0 {
			hits++
		}
	}
	if hits > probes/2 {
		return len(blocks)
	}
	t.search(blocks)
	n := len(t.places)
	if n*(thinWord+1)+words/maxGap+thinWord > len(blocks)/2 {
		return len(blocks)
	}
	at, last := 0, 0 // in blocks, and the word behind the one before
	t.gaps = t.gaps[:0]
	for _, place := range t.places {
		w := int(place)
		t.skip(&last, w)
		t.gaps = append(t.gaps, byte(w-last))
		binary.NativeEndian.PutUint32(blocks[at:], binary.NativeEndian.Uint32(blocks[w*thinWord:]))
		at, last = at+thinWord, w+1
	}
	t.skip(&last, words)
	at += copy(blocks[at:], t.gaps)
	binary.LittleEndian.PutUint32(blocks[at:], uint32(n))
	return at + thinWord
}

// search stores the places of words that are not zero: lines of zeros are skipped, and within others no branch depends
// on the data. kernel.NonZero, made for long blocks, takes 5 to 30 times as long.
func (t *Thin) search(blocks []byte) {
	t.places = Sized(t.places, len(blocks)/thinWord)
	places, n := t.places, 0
	for from := 0; from < len(blocks); from += lineBytes {
		line := blocks[from:min(from+lineBytes, len(blocks))]
		if len(line) == lineBytes && empty((*[lineBytes]byte)(line)) {
			continue
		}
		for i := 0; i < len(line); i += thinWord {
			places[n] = uint32((from + i) / thinWord)
			if binary.NativeEndian.Uint32(line[i:]) != 0 {
				n++
			}
		}
	}
	t.places = places[:n]
}

// empty reports whether a line is zero.
func empty(p *[lineBytes]byte) bool {
	e := binary.NativeEndian
	return e.Uint64(p[0:])|e.Uint64(p[8:])|e.Uint64(p[16:])|e.Uint64(p[24:])|
		e.Uint64(p[32:])|e.Uint64(p[40:])|e.Uint64(p[48:])|e.Uint64(p[56:]) == 0
}

// skip writes the long gaps from last on before word w.
func (t *Thin) skip(last *int, w int) {
	for ; w-*last >= maxGap; *last += maxGap {
		t.gaps = append(t.gaps, maxGap)
	}
}

var errThin = errors.New("invalid encoding of blocks without their zeros")

// Spread returns the blocks, of the given size in bytes, that Squeeze has squeezed into p. p is untrusted. The result
// is valid until the next call.
func (t *Thin) Spread(p []byte, size int) ([]byte, error) {
	end := len(p) - thinWord
	if end < 0 || size%thinWord != 0 {
		return nil, errThin
	}
	n := int(binary.LittleEndian.Uint32(p[end:]))
	if n > end/thinWord || size/thinWord > maxGap*(end-n*thinWord+1) {
		return nil, errThin
	}
	values, gaps := p[:n*thinWord], p[n*thinWord:end]
	t.blocks = Sized(t.blocks, size)
	clear(t.blocks)
	at := 0 // in t.blocks
	for _, gap := range gaps {
		at += int(gap) * thinWord
		if gap == maxGap {
			continue
		}
		if at >= size || len(values) == 0 {
			return nil, errThin
		}
		binary.NativeEndian.PutUint32(t.blocks[at:], binary.NativeEndian.Uint32(values))
		values, at = values[thinWord:], at+thinWord
	}
	if len(values) > 0 || at > size {
		return nil, errThin
	}
	return t.blocks, nil
}
