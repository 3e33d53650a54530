//go:build linux && race

package osys

import (
	"runtime"
	"unsafe"
)

// ioSync orders, for the race detector, accesses before a Send and accesses after a Recv of one process, as package
// syscall does for Write and Read.
var ioSync int64

func releaseIO() { runtime.RaceReleaseMerge(unsafe.Pointer(&ioSync)) }
func acquireIO() { runtime.RaceAcquire(unsafe.Pointer(&ioSync)) }
