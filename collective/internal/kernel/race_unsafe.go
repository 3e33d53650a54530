//go:build race && cgo

package kernel

import (
	"runtime"
	"unsafe"
)

// raceRead tells the race detector what C reads: it sees only Go's accesses.
func raceRead(b []byte) {
	runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
}

// raceWrite tells the race detector what C writes.
func raceWrite(b []byte) {
	runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
}
