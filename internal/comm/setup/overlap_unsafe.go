package setup

import "unsafe"

// Overlap says how two buffers share memory: not at all, wholly (in place), or
// partly, which no collective allows.
type Overlap int

const (
	Apart   Overlap = iota // not at all
	InPlace                // wholly
	Partial                // partly
)

// OverlapOf says how a and b share memory.
func OverlapOf(a, b []byte) Overlap {
	return OverlapAt(uint64(uintptr(unsafe.Pointer(unsafe.SliceData(a)))), uint64(len(a)),
		uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), uint64(len(b)))
}

// OverlapAt says how n bytes at address p and m bytes at address q share memory.
func OverlapAt(p, n, q, m uint64) Overlap {
	switch {
	case n == 0 || m == 0:
		return Apart
	case p == q && n == m:
		return InPlace
	case p < q+m && q < p+n:
		return Partial
	}
	return Apart
}
