package osys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// TakeSocket takes the socket out of c, which is closed, and out of the Go runtime's poller, which would otherwise wake
// a thread for every packet that arrives. The descriptor does not block and belongs to the caller.
func TakeSocket(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	var sysErr error
	if err := raw.Control(func(old uintptr) {
		fd, sysErr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return -1, err
	}
	if sysErr != nil {
		return -1, fmt.Errorf("fcntl(F_DUPFD_CLOEXEC): %w", sysErr)
	}
	if err := errors.Join(c.Close(), unix.SetNonblock(fd, true)); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Unsent returns the number of bytes sent on the socket fd that its peer has not acknowledged.
func Unsent(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.SIOCOUTQ) }

// EndSending announces the end of the data to the peer of the socket fd.
func EndSending(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) }

// Event is an eventfd: a descriptor that can be read once it is signaled. Its methods may be
// called concurrently, and do nothing after Close.
type Event struct {
	signaled atomic.Bool // and not drained
	mu       sync.Mutex
	fd       int // 0: none
}

// one is the number that Signal adds.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// Open makes the descriptor.
func (e *Event) Open() (err error) {
	if e.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		e.fd = 0
		return fmt.Errorf("eventfd: %w", err)
	}
	return nil
}

// FD returns the descriptor, which the Event still owns.
func (e *Event) FD() int { return e.fd }

// Signal makes the descriptor readable.
func (e *Event) Signal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd > 0 {
		e.signaled.Store(true)
		_, _ = unix.Write(e.fd, one)
	}
}

// Drain makes the descriptor unreadable until the next Signal.
func (e *Event) Drain() {
	if !e.signaled.Swap(false) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd > 0 {
		_, _ = unix.Read(e.fd, make([]byte, 8)) // sets it to zero
	}
}

// Close closes the descriptor.
func (e *Event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd <= 0 {
		return nil
	}
	err := unix.Close(e.fd)
	e.fd = 0
	return err
}

// NewPoller returns an epoll descriptor.
func NewPoller() (int, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("epoll_create1: %w", err)
	}
	return fd, nil
}

// Watch adds fd to the poller ep, under the number id: it is ready when it is readable.
func Watch(ep, fd, id int) error { return watch(ep, unix.EPOLL_CTL_ADD, fd, id, unix.EPOLLIN) }

// WatchRoom changes whether fd, which Watch added, is also ready when there is room to send.
func WatchRoom(ep, fd, id int, room bool) error {
	events := uint32(unix.EPOLLIN)
	if room {
		events |= unix.EPOLLOUT
	}
	return watch(ep, unix.EPOLL_CTL_MOD, fd, id, events)
}

// Unwatch takes fd out of the poller ep.
func Unwatch(ep, fd int) error {
	return unix.EpollCtl(ep, unix.EPOLL_CTL_DEL, fd, nil)
}

func watch(ep, op, fd, id int, events uint32) error {
	err := unix.EpollCtl(ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(id)})
	if err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Events is room for the events of a poller.
type Events struct {
	list [16]unix.EpollEvent
}

// Look calls f with the numbers of at most 16 descriptors that are ready in the poller ep.
func (e *Events) Look(ep int, f func(id int)) error {
	n, err := unix.EpollWait(ep, e.list[:], 0)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("epoll_wait: %w", err)
	}
	for i := 0; i < n; i++ {
		f(int(e.list[i].Fd))
	}
	return nil
}

// QuickAck makes the kernel acknowledge the bytes that have arrived on the socket fd at once, and not some 40 ms later
// with the next bytes that this side may send.
func QuickAck(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) }

// Await makes waits for the socket fd end once n bytes can be read, or no more will come; n is 1 for a new socket.
// Reads are not affected.
func Await(fd, n int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) }
