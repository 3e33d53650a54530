//go:build linux && !amd64

package osys

// QuickCore reports whether Core needs no system call.
const QuickCore = false

// Core returns the number of the core on which the calling thread runs, -1 if it is not known.
func Core() int { return getcpu() }
