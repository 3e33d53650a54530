package engine

import "github.com/treerun/treerun/internal/call"

// Numbered returns the Root of the header of a persistent call that is number n, from 0, of those with the same kind,
// type, operation, count and root. Number 0 has the Root of a plain call, and so has 1<<15.
func Numbered(root, n int) int32 {
	if n %= 1 << 15; n == 0 {
		return int32(root)
	}
	return int32(n<<16 | root&0xffff)
}

// numberOf returns the header of a plain call, and the number that is added to it in h.
func numberOf(h call.Header) (call.Header, int) {
	kind, _ := kindOf(h)
	n := h.Root >> 16
	if h.Kind == messageKind || n <= 0 {
		return h, 0
	}
	if h.Root &= 0xffff; !kind.HasRoot() {
		h.Root = -1
	}
	return h, int(n)
}
