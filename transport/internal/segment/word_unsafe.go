package segment

import (
	"sync/atomic"
	"unsafe"
)

// word returns the 4 bytes of b at off as an atomic word. Precondition: they
// are inside b and aligned (else it panics).
func word(b []byte, off int) *uint32 {
	p := unsafe.Pointer(&b[off : off+4][0])
	if uintptr(p)%4 != 0 {
		panic("segment: word is not aligned")
	}
	return (*uint32)(p)
}

func loadWord(b []byte, off int) uint32     { return atomic.LoadUint32(word(b, off)) }
func storeWord(b []byte, off int, v uint32) { atomic.StoreUint32(word(b, off), v) }

// callAt returns the copy of a call that begins b.
func callAt(b []byte) *[callWords]uint64 {
	return (*[callWords]uint64)(unsafe.Pointer(&b[:statusCopyBytes][0]))
}

// readWords loads a copy of a call, word by word.
func readWords(b []byte) (w [callWords]uint64) {
	p := callAt(b)
	for i := range w {
		w[i] = atomic.LoadUint64(&p[i])
	}
	return w
}

// offsetIn returns where part, which is not empty, begins in whole.
func offsetIn(whole, part []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}
