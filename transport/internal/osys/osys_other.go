//go:build !linux

package osys

import (
	"net"
	"runtime"
	"time"
)

// CreateSealed is not supported here.
func CreateSealed(string, int, int) (int, error) { return -1, ErrNotSupported }

// Allocate is not supported here.
func Allocate(int, int, int) error { return ErrNotSupported }

// Deallocate is not supported here.
func Deallocate(int, int, int) error { return ErrNotSupported }

// CheckSealed is not supported here.
func CheckSealed(int, int) error { return ErrNotSupported }

// CloseFD is not supported here.
func CloseFD(int) error { return ErrNotSupported }

// Prefault does nothing here.
func Prefault([]byte) {}

// Map is not supported here.
func Map(int, int) ([]byte, error) { return nil, ErrNotSupported }

// Blank is not supported here.
func Blank([]byte) error { return ErrNotSupported }

// Unmap is not supported here.
func Unmap([]byte) error { return ErrNotSupported }

// FutexWait sleeps for a moment: without futexes a sleeper polls.
func FutexWait(_ *uint32, _ uint32, timeout time.Duration) bool {
	time.Sleep(min(timeout, time.Millisecond))
	return timeout <= time.Millisecond
}

// FutexWake does nothing here.
func FutexWake(*uint32) {}

// Yield lets another goroutine run.
func Yield() { runtime.Gosched() }

// SendFD is not supported here.
func SendFD(*net.UnixConn, []byte, int) error { return ErrNotSupported }

// RecvFD is not supported here.
func RecvFD(*net.UnixConn, []byte) (int, error) { return -1, ErrNotSupported }

// CheckSameUser is not supported here.
func CheckSameUser(*net.UnixConn) error { return ErrNotSupported }

// Busy is never true here.
func Busy(error) bool { return false }

// UsableCores returns the number of cores the runtime sees.
func UsableCores() int { return runtime.NumCPU() }

// PinThread is not supported.
func PinThread(int) (func(), error) { return nil, ErrNotSupported }

// AddressLimit is not known here.
func AddressLimit() (uint64, bool) { return 0, false }
