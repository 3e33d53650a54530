package omni

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A list is a block as (index, value) pairs of its elements that have any bit, -0
// included, by rising index:
//
//	index  number of pairs
//	index  per pair: the element's place in the block
//	...    per pair: the element, in the order of the machine
//
// An index is a number of 1, 2 or 4 bytes, in the order of the machine, as the Grid's blocks need.
// A list is at most half as long as its block: a longer one takes a core more time than
// a quick network saves.

// indexBytes returns the size of an index.
func (s *Shape) indexBytes() int {
	switch {
	case s.Grid.Size <= 1<<8:
		return 1
	case s.Grid.Size <= 1<<16:
		return 2
	}
	return 4
}

// maxPairs returns the pairs of the longest list that is at most half as long as a block
// of n bytes, 0 if none is.
func (s *Shape) maxPairs(n int) int {
	index := s.indexBytes()
	return max(0, n/2-index) / (index + s.Grid.Width)
}

// Carried returns the part of its bytes with which a block travels of whose elements
// this part is not zero.
func (s *Shape) Carried(part float64) float64 {
	block := float64(s.Grid.BlockBytes())
	index, width := float64(s.indexBytes()), float64(s.Grid.Width)
	if n := float64(s.Grid.Size) * part; s.Lists && n <= float64(s.maxPairs(s.Grid.BlockBytes())) {
		return (index + float64(n*(index+width))) / block
	}
	return 1
}

// probes is how many elements of a block are looked at before it is searched: a dense
// block costs no more than these.
const probes = 16

// pays tells by a few elements, spread over a block, whether a list of so many pairs
// may hold all of its elements that are not zero.
func pays(block []byte, width, pairs int) bool {
	n := len(block) / width
	if n <= probes {
		return pairs > 0
	}
	hits, step := 0, n/probes*width
	for i := range probes {
		if element(block[i*step:], width) != 0 {
			hits++
		}
	}
	const slack = 2 // of a sample so small
	return (hits-slack)*n <= pairs*probes
}

// element returns the bits of the first element of b, or the first index.
func element(b []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// putElement makes the first element of b, or the first index, one with these bits.
func putElement(b []byte, width int, bits uint64) {
	switch width {
	case 1:
		b[0] = byte(bits)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(bits))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(bits))
	default:
		binary.NativeEndian.PutUint64(b, bits)
	}
}

// lister makes lists, with memory that it keeps.
type lister struct {
	words  []uint32 // of a block that are not zero
	places []uint32 // in the block, of its elements that are not zero
	values []byte
	listed []bool // by block of the packet that is composed
}

// shorten makes a list of a block where that is half as long or less, in its place. It returns how
// many bytes it then has; fewer than before: it is a list.
func (l *lister) shorten(s *Shape, block []byte) int {
	index, width := s.indexBytes(), s.Grid.Width
	pairs := s.maxPairs(len(block))
	if !pays(block, width, pairs) || !l.search(block, width, pairs) {
		return len(block)
	}
	l.values = slices.Grow(l.values[:0], len(block))[:len(l.places)*width]
	for i, place := range l.places {
		putElement(l.values[i*width:], width, element(block[int(place)*width:], width))
	}
	putElement(block, index, uint64(len(l.places)))
	at := index
	for _, place := range l.places {
		putElement(block[at:], index, uint64(place))
		at += index
	}
	return at + copy(block[at:], l.values)
}

// search puts the places of the elements that are not zero into l.places. It reports
// whether they are no more than so many. It goes by words, and then by the elements of
// those words that are not zero, without a branch that data decide.
func (l *lister) search(block []byte, width, pairs int) bool {
	const word = 8
	per := word / width
	l.words = slices.Grow(l.words[:0], len(block)/word+1)[:len(block)/word+1]
	whole, words, n := len(block)/word, l.words, 0
	for i := range whole {
		words[n] = uint32(i)
		if binary.LittleEndian.Uint64(block[i*word:]) != 0 {
			n++
		}
	}
	if n > pairs {
		return false
	}
	room := n*per + per
	l.places = slices.Grow(l.places[:0], room)[:room]
	places, found := l.places, 0
	for _, i := range words[:n] {
		w, first := binary.LittleEndian.Uint64(block[i*word:]), i*uint32(per)
		for k := range uint32(per) {
			places[found] = first + k
			if w&(^uint64(0)>>(64-8*width)) != 0 {
				found++
			}
			w >>= uint(8*width) & 63
		}
	}
	for from := whole * word; from < len(block); from += width {
		if element(block[from:], width) != 0 {
			places[found] = uint32(from / width)
			found++
		}
	}
	l.places = places[:found]
	return found <= pairs
}

// cutList takes the list of a block of n bytes off the begin of body, which comes from
// outside: the list without the number of its pairs, and what follows it.
func (s *Shape) cutList(body []byte, n int) (list, rest []byte, err error) {
	index, width := s.indexBytes(), s.Grid.Width
	if len(body) < index {
		return nil, nil, fmt.Errorf("%d bytes are left for a list", len(body))
	}
	pairs := int(element(body, index))
	body = body[index:]
	size := pairs * (index + width)
	switch {
	case pairs > s.maxPairs(n):
		return nil, nil, fmt.Errorf("a list of %d pairs is too long for its block of %d bytes", pairs, n)
	case size > len(body):
		return nil, nil, fmt.Errorf("a list has %d pairs, %d bytes are left", pairs, len(body))
	}
	for i, last := 0, -1; i < pairs; i++ {
		place := int(element(body[i*index:], index))
		if place <= last || place >= n/width {
			return nil, nil, fmt.Errorf("element %d follows element %d in the list of a block of %d", place, last, n/width)
		}
		last = place
	}
	return body[:size:size], body[size:], nil
}

// spread writes the block that a list of cutList stands for.
func (s *Shape) spread(block, list []byte) {
	index, width := s.indexBytes(), s.Grid.Width
	clear(block)
	pairs := len(list) / (index + width)
	values := list[pairs*index:]
	for i := range pairs {
		to := int(element(list[i*index:], index)) * width
		putElement(block[to:], width, element(values[i*width:], width))
	}
}
