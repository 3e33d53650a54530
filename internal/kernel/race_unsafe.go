//go:build race && cgo && linux

package kernel

import (
	"runtime"
	"unsafe"
)

// raceRead reports reads of C to the race detector, which sees only accesses of Go.
func raceRead(b []byte) { runtime.RaceReadRange(hidden(b), len(b)) }

// raceWrite reports writes of C to the race detector.
func raceWrite(b []byte) { runtime.RaceWriteRange(hidden(b), len(b)) }

// hidden returns the address of b, such that the compiler does not take b to
// escape: the detector keeps no pointer.
func hidden(b []byte) unsafe.Pointer {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
