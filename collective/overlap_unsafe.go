package collective

import "unsafe"

// overlap says how two buffers share memory: not at all, wholly (in place), or
// partly, which no collective allows.
type overlap int

const (
	apart overlap = iota
	inPlace
	partial
)

func overlapOf(a, b []byte) overlap {
	if len(a) == 0 || len(b) == 0 {
		return apart
	}
	p, q := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	switch {
	case p == q && len(a) == len(b):
		return inPlace
	case p < q+uintptr(len(b)) && q < p+uintptr(len(a)):
		return partial
	}
	return apart
}
