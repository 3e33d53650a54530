//go:build !linux

package osys

import (
	"errors"
	"net"
	"runtime"
	"time"
)

// CreateSealed is not supported here.
func CreateSealed(string, int, int, int) (int, error) { return -1, ErrNotSupported }

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
func Map(int, int, int) ([]byte, error) { return nil, ErrNotSupported }

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

// SetPeerTimeout turns Nagle's algorithm off and leaves timeouts to the system.
func SetPeerTimeout(c *net.TCPConn, _ time.Duration) error { return c.SetNoDelay(true) }

// RoundTrip is not known here.
func RoundTrip(*net.TCPConn) (time.Duration, bool) { return 0, false }

// Busy is never true here.
func Busy(error) bool { return false }

// UsableCores returns the number of cores the runtime sees.
func UsableCores() int { return runtime.NumCPU() }

// PinThread is not supported.
func PinThread(int, []int) (func(), error) { return nil, ErrNotSupported }

// AddressLimit is not known here.
func AddressLimit() (uint64, bool) { return 0, false }

// ErrNoProcess is returned for a process that has ended.
var ErrNoProcess = errors.New("osys: the process has ended")

// Address is not supported here.
func Address([]byte) uint64 { return 0 }

// ReadMemory is not supported here.
func ReadMemory(int, uint64, []byte) error { return ErrNotSupported }

// WriteMemory is not supported here.
func WriteMemory(int, uint64, []byte) error { return ErrNotSupported }

// OpenProcess is not supported here.
func OpenProcess(int) (int, error) { return -1, ErrNotSupported }

// Alive is never true here.
func Alive(int) bool { return false }

// Ended is always true here.
func Ended(int) bool { return true }

// LetSiblingsRead does nothing here.
func LetSiblingsRead() {}

// Vectors is not supported here.
type Vectors struct{ bytes int }

// MaxVectors is how many pieces of memory one Vectors holds.
const MaxVectors = 64

// Reset empties v.
func (v *Vectors) Reset() { v.bytes = 0 }

// Add counts b.
func (v *Vectors) Add(b []byte) bool { v.bytes += len(b); return true }

// Room returns how many pieces can still be added.
func (v *Vectors) Room() int { return MaxVectors }

// Bytes returns the sum of the lengths.
func (v *Vectors) Bytes() int { return v.bytes }

// Each does nothing here.
func (v *Vectors) Each(func([]byte) bool) {}

// Send is not supported here.
func (v *Vectors) Send(int) (int, error) { return 0, ErrNotSupported }

// Recv is not supported here.
func (v *Vectors) Recv(int) (int, error) { return 0, ErrNotSupported }

// Signal does nothing here.
func Signal(int) {}

// Drain does nothing here.
func Drain(int) {}

// TakeSocket is not supported here.
func TakeSocket(*net.TCPConn) (int, error) { return -1, ErrNotSupported }

// Unsent is not supported here.
func Unsent(int) (int, error) { return 0, ErrNotSupported }

// EndSending is not supported here.
func EndSending(int) error { return ErrNotSupported }

// QuickAck does nothing here.
func QuickAck(int) {}

// NewEvent is not supported here.
func NewEvent() (int, error) { return -1, ErrNotSupported }

// NewPoller is not supported here.
func NewPoller() (int, error) { return -1, ErrNotSupported }

// Watch is not supported here.
func Watch(int, int, int) error { return ErrNotSupported }

// WatchRoom is not supported here.
func WatchRoom(int, int, int, bool) error { return ErrNotSupported }

// Unwatch is not supported here.
func Unwatch(int, int) error { return ErrNotSupported }

// Events is not supported here.
type Events struct{}

// Wait is not supported here.
func (*Events) Wait(int, time.Duration, func(int)) error { return ErrNotSupported }

// PollSet is not supported here.
type PollSet struct{}

// Reset does nothing here.
func (*PollSet) Reset() {}

// Add does nothing here.
func (*PollSet) Add(int, bool) {}

// Wait waits for max.
func (*PollSet) Wait(max time.Duration) { time.Sleep(max) }

// Doorbell is not supported here.
type Doorbell struct{}

// BellAddress is not supported here.
type BellAddress struct{}

// NewDoorbell is not supported here.
func NewDoorbell(string) (*Doorbell, error) { return nil, ErrNotSupported }

// NewBellAddress is not supported here.
func NewBellAddress(string) (*BellAddress, error) { return nil, ErrNotSupported }

// Close does nothing here.
func (*Doorbell) Close() error { return nil }

// Knock does nothing here.
func (*Doorbell) Knock(*BellAddress) {}

// Wait sleeps for a moment.
func (*Doorbell) Wait(_ int, max time.Duration) bool {
	time.Sleep(min(max, time.Millisecond))
	return false
}
