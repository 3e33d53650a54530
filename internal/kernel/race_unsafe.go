//go:build race && cgo

package kernel

import (
	"runtime"
	"unsafe"
)

// raceRead tells the race detector what C reads: it sees only Go's accesses.
func raceRead(b []byte) { runtime.RaceReadRange(hidden(b), len(b)) }

// raceWrite tells the race detector what C writes.
func raceWrite(b []byte) { runtime.RaceWriteRange(hidden(b), len(b)) }

// hidden returns the address of b, such that the compiler does not take b to
// escape: the detector keeps no pointer.
func hidden(b []byte) unsafe.Pointer {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
