package block

import "math/bits"

// Set is a set of blocks: bit b%64 of word b/64 is 1 if block b is in it, as kernel.NonZero writes them. Bits beyond
// the last block are 0.
type Set []uint64

// Words returns the number of words of a Set of blocks 0 to n-1.
func Words(n int) int { return (n + 63) / 64 }

// NewSet returns an empty Set for blocks 0 to n-1.
func NewSet(n int) Set { return make(Set, Words(n)) }

// Sized returns x with n elements of any value.
func Sized[S ~[]T, T any](x S, n int) S {
	if cap(x) < n {
		return make(S, n)
	}
	return x[:n]
}

// Add puts block b into s.
func (s Set) Add(b int) { s[b/64] |= 1 << (b % 64) }

// AddRun puts the n blocks from b on into s.
func (s Set) AddRun(b, n int) {
	for end := b + n; b < end; {
		part := min(64-b%64, end-b)
		s[b/64] |= ^uint64(0) >> (64 - part) << (b % 64)
		b += part
	}
}

// Has reports whether block b is in s.
func (s Set) Has(b int) bool { return s[b/64]>>(b%64)&1 != 0 }

// Len returns the number of blocks in s.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union puts every block of o, which is as long as s, into s.
func (s Set) Union(o Set) {
	for i, w := range o {
		s[i] |= w
	}
}

// Next returns the first block of s at or after b, -1 if there is none.
func (s Set) Next(b int) int { return s.seek(b, 0) }

// Run returns the first run of consecutive blocks of s at or after b: the first
// of them and their number, -1 and 0 if there is none.
func (s Set) Run(b int) (first, n int) {
	first = s.Next(b)
	if first < 0 {
		return -1, 0
	}
	end := s.seek(first, ^uint64(0))
	if end < 0 {
		end = len(s) * 64
	}
	return first, end - first
}

// seek returns the first block at or after b whose bit, with flip, is 1.
func (s Set) seek(b int, flip uint64) int {
	i := b / 64
	if i >= len(s) {
		return -1
	}
	w := (s[i] ^ flip) >> (b % 64) << (b % 64)
	for w == 0 {
		i++
		if i == len(s) {
			return -1
		}
		w = s[i] ^ flip
	}
	return i*64 + bits.TrailingZeros64(w)
}
