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
	if len(a) == 0 || len(b) == 0 {
		return Apart
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	switch {
	case p == q && len(a) == len(b):
		return InPlace
	case p < q+uintptr(len(b)) && q < p+uintptr(len(a)):
		return Partial
	}
	return Apart
}
