//go:build !linux

package osys

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Elsewhere than on Linux all ranks of a job are goroutines of one process: memory files are memory of it, and a rank
// that sleeps looks again after each nap.

// errOther is the error of all that leaves the process.
var errOther = fmt.Errorf("ranks of several processes need Linux: %w", errors.ErrUnsupported)

const nap = time.Millisecond

// QuickCore reports whether Core needs no system call.
const QuickCore = false

// file is a memory file, by offset: every part of it that was mapped has memory of its own.
type file map[int][]byte

var process = struct {
	sync.Mutex
	last  int            // descriptor
	files map[int]file   // by descriptor
	sent  map[string]int // descriptors to receive, by the name of a doorbell and the token; -1: none will come
}{last: 1 << 20, files: map[int]file{}, sent: map[string]int{}} // no number is that of a descriptor of the system

// open returns a new descriptor of a file. The lock is held.
func open(f file) int {
	process.last++
	process.files[process.last] = f
	return process.last
}

// CreateSealed makes a memory file, and returns its descriptor. The caller closes it.
func CreateSealed(string, int, int) (fd int, err error) {
	process.Lock()
	defer process.Unlock()
	return open(file{}), nil
}

// Map returns size bytes of fd from an offset on: the same memory for the same offset.
func Map(fd, from, size int) ([]byte, error) {
	process.Lock()
	defer process.Unlock()
	f := process.files[fd]
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is no memory file", fd)
	}
	if len(f[from]) < size {
		f[from] = make([]byte, size)
	}
	return f[from][:size:size], nil
}

// Deallocate removes the memory of n bytes from offset on from the file; they read as zeros.
func Deallocate(fd, offset, n int) error {
	process.Lock()
	defer process.Unlock()
	maps.DeleteFunc(process.files[fd], func(from int, _ []byte) bool { return from >= offset && from < offset+n })
	return nil
}

// CloseFD closes a descriptor.
func CloseFD(fd int) error {
	process.Lock()
	defer process.Unlock()
	delete(process.files, fd)
	return nil
}

// The runtime has the memory, and nothing comes from another process.
func CheckSealed(int, int) error   { return nil }
func Allocate(int, int, int) error { return nil }
func Blank([]byte) error           { return nil }
func Unmap([]byte) error           { return nil }
func Prefault([]byte)              {}

// LimitsAddresses reports that no rank can map a heap of another one.
func LimitsAddresses() bool { return true }

// Doorbell receives descriptors of memory files under a name.
type Doorbell struct{ name string }

// NewDoorbell opens a Doorbell with a name, which ends with it.
func NewDoorbell(name string) (*Doorbell, error) { return &Doorbell{name}, nil }

// Close drops descriptors that were not received.
func (d *Doorbell) Close() error {
	process.Lock()
	defer process.Unlock()
	maps.DeleteFunc(process.sent, func(to string, _ int) bool { return strings.HasPrefix(to, d.name) })
	return nil
}

// SendFD sends a copy of descriptor fd, with token, to the Doorbell of a name.
func (d *Doorbell) SendFD(name string, token []byte, fd int) error {
	process.Lock()
	defer process.Unlock()
	f := process.files[fd]
	if f == nil {
		return fmt.Errorf("descriptor %d is no memory file", fd)
	}
	process.sent[name+string(token)] = open(f)
	return nil
}

// SendNone notifies the Doorbell of a name that no descriptor will come.
func (d *Doorbell) SendNone(name string, no []byte) error {
	process.Lock()
	defer process.Unlock()
	process.sent[name+string(no)] = -1
	return nil
}

// RecvFD returns the descriptor that has come with token, or ErrAgain after a nap.
func (d *Doorbell) RecvFD(token, no []byte, limit time.Duration) (fd int, err error) {
	process.Lock()
	defer process.Unlock()
	if fd, is := process.sent[d.name+string(token)]; is {
		delete(process.sent, d.name+string(token))
		return fd, nil
	}
	if _, is := process.sent[d.name+string(no)]; is {
		return -1, ErrNone
	}
	process.Unlock()
	defer process.Lock()
	time.Sleep(min(limit, nap))
	return -1, ErrAgain
}

// Doorbells wake no rank: those of one host sleep on futexes.
func (d *Doorbell) Wait(int, time.Duration) bool { return false }
func (d *Doorbell) End()                         {}
func (d *Doorbell) Ring(*BellAddress)            {}
func (d *Doorbell) FD() int                      { return -1 }

// BellAddress is the address of a Doorbell.
type BellAddress struct{}

// NewBellAddress returns the address of a Doorbell.
func NewBellAddress(string) (*BellAddress, error) { return &BellAddress{}, nil }

// Place is where a process can be woken.
type Place struct {
	Word  *uint32
	Value uint32
	FDs   [2]int
}

// WaitAny sleeps for a nap.
func WaitAny(_ []Place, limit time.Duration) { time.Sleep(min(limit, nap)) }

// FutexWait sleeps for a nap, and reports whether the whole timeout has passed.
func FutexWait(_ *uint32, _ uint32, timeout time.Duration) (timedOut bool) {
	time.Sleep(min(timeout, nap))
	return timeout <= nap
}

// FutexWake does nothing: a FutexWait ends by itself.
func FutexWake(*uint32) {}

func schedYield() { runtime.Gosched() }

// Cores and processes of this host are not known.
func Core() int                             { return -1 }
func MoveThread(int) error                  { return errors.ErrUnsupported }
func WidenThread([]int)                     {}
func PinThread(int, []int) (func(), error)  { return func() {}, nil }
func Address([]byte) uint64                 { return 0 }
func LetSiblingsRead()                      {}
func OpenProcess(int) (int, error)          { return -1, errOther }
func Ended(int) (bool, error)               { return false, nil }
func ReadMemory(int, uint64, []byte) error  { return errOther }
func WriteMemory(int, uint64, []byte) error { return errOther }

// Sockets belong to the Go runtime, which hands none over.
func TakeSocket(c *net.TCPConn) (int, error)   { return -1, errors.Join(errOther, c.Close()) }
func Unsent(int) (int, error)                  { return 0, errOther }
func EndSending(int) error                     { return errOther }
func QuickAck(int)                             {}
func Await(int, int)                           {}
func Poll(int, int, time.Duration) (a, b bool) { return false, false }
func NewPoller() (int, error)                  { return -1, errOther }
func Watch(_, _, _ int) error                  { return errOther }
func WatchRoom(_, _, _ int, _ bool) error      { return errOther }
func Unwatch(_, _ int) error                   { return errOther }

// Event ends waits for several descriptors, of which there are none.
type Event struct{}

func (*Event) Open() error  { return errOther }
func (*Event) FD() int      { return -1 }
func (*Event) Signal()      {}
func (*Event) Drain()       {}
func (*Event) Close() error { return nil }

// Events is room for the events of a poller.
type Events struct{}

// Look finds no poller.
func (*Events) Look(int, func(int)) error { return errOther }

// Vectors is a list of pieces of memory for a socket.
type Vectors struct{}

func (*Vectors) Reset()                 {}
func (*Vectors) Add([]byte) bool        { return false }
func (*Vectors) Room() int              { return 0 }
func (*Vectors) Bytes() int             { return 0 }
func (*Vectors) Each(func([]byte) bool) {}
func (*Vectors) Send(int) (int, error)  { return 0, errOther }
func (*Vectors) Recv(int) (int, error)  { return 0, errOther }
