//go:build !linux

package job

import "syscall"

// signalName returns the system's description of a signal.
func signalName(s syscall.Signal) string { return s.String() }
