// Package osys is the part of the operating system that the shared-memory
// transport needs: sealed memory files, mappings, futexes, descriptors passed
// over a unix socket, the identity of a socket's peer, and the set of cores a
// process may use.
//
// It holds thin typed calls and no protocol of its own. Below transport it is
// the only user of golang.org/x/sys; only transport/shm imports it. Everything
// works on Linux; elsewhere every call that can fail returns ErrNotSupported.
package osys

import "errors"

// ErrNotSupported is returned where the operating system has no such call.
var ErrNotSupported = errors.New("osys: not supported on this operating system")
