// Package osys is the part of the operating system that the transports need: sealed memory files, mappings, futexes,
// doorbells and the descriptors that they pass, and the set of cores a process may use, for transport/shm; sockets that
// never block, and waiting for many of them, for transport/tcp.
//
// It holds thin typed calls and no protocol of its own. Below transport it is the only user of golang.org/x/sys; those
// import it. On other systems than Linux it serves ranks that are goroutines of one process, and refuses all else.
package osys

import (
	"errors"

	"github.com/treerun/treerun/internal/cpu"
)

// ErrAgain is returned by Vectors when a socket has no bytes to read, or no room for more, at the moment.
var ErrAgain = errors.New("osys: not now")

// ErrNone is returned by RecvFD when the sender has called SendNone.
var ErrNone = errors.New("the sender could not send it")

// Cores returns the cores on which the calling thread may run, in order; nil if they are not known.
func Cores() []int {
	all, _ := cpu.Allowed()
	return all
}
