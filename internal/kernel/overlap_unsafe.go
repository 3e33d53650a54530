package kernel

import "unsafe"

// Overlap describes how two buffers share memory: not at all, wholly (in place), or partly, which no collective allows.
type Overlap int

const (
	Apart   Overlap = iota // not at all
	InPlace                // wholly
	Partial                // partly
)

// Span is a buffer of a call, on the host or on a device, as its checks see it.
type Span struct {
	Addr         uint64
	Count, Bytes int // Count: elements
}

// SpanOf returns b as a Span of bytes.
func SpanOf(b []byte) Span {
	return Span{uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), len(b), len(b)}
}

// OverlapOf returns how a and b share memory.
func OverlapOf(a, b []byte) Overlap { return SpanOf(a).Overlap(SpanOf(b)) }

// Overlap returns how a and b share memory.
func (a Span) Overlap(b Span) Overlap {
	switch {
	case a.Bytes == 0 || b.Bytes == 0:
		return Apart
	case a.Addr == b.Addr && a.Bytes == b.Bytes:
		return InPlace
	case a.Addr < b.Addr+uint64(b.Bytes) && b.Addr < a.Addr+uint64(a.Bytes):
		return Partial
	}
	return Apart
}
