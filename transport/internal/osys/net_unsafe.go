//go:build linux

package osys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxVectors is how many pieces of memory one Vectors holds.
const MaxVectors = 64

// Vectors is a list of pieces of memory for one system call that sends from
// them, or receives into them, in their order. It allocates nothing. Neither
// call ever blocks, so they do without the scheduler's bookkeeping. The zero
// value is empty. One goroutine uses it at a time.
type Vectors struct {
	iov   [MaxVectors]unix.Iovec
	msg   unix.Msghdr
	n     int
	bytes int
}

// Reset empties v, and drops its references to the memory.
func (v *Vectors) Reset() {
	clear(v.iov[:v.n])
	v.n, v.bytes = 0, 0
}

// Add appends b. It returns false, and adds nothing, when v is full. An empty
// b needs no room.
func (v *Vectors) Add(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if v.n == MaxVectors {
		return false
	}
	v.iov[v.n].Base = unsafe.SliceData(b)
	v.iov[v.n].SetLen(len(b))
	v.n++
	v.bytes += len(b)
	return true
}

// Room returns how many pieces can still be added.
func (v *Vectors) Room() int { return MaxVectors - v.n }

// Bytes returns the sum of the lengths.
func (v *Vectors) Bytes() int { return v.bytes }

// Each calls f with every piece, in order, until it returns false.
func (v *Vectors) Each(f func(b []byte) bool) {
	for i := range v.n {
		if !f(unsafe.Slice(v.iov[i].Base, v.iov[i].Len)) {
			return
		}
	}
}

// Send sends the bytes of v on the socket fd, as far as there is room for them at once, and returns the number of sent
// bytes. It returns ErrAgain when there is no room. A socket that the peer has closed is an error and no signal.
func (v *Vectors) Send(fd int) (int, error) {
	releaseIO()
	if v.n == 1 {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(v.iov[0].Base)),
			uintptr(v.iov[0].Len), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		return done(n, errno)
	}
	n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(v.header())),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return done(n, errno)
}

// Recv receives the available bytes from the socket fd, as far as v has room for them, and returns their number; 0 when
// the peer will send no more. It returns ErrAgain when there is nothing yet.
func (v *Vectors) Recv(fd int) (int, error) {
	var n uintptr
	var errno syscall.Errno
	if v.n == 1 {
		n, _, errno = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(v.iov[0].Base)),
			uintptr(v.iov[0].Len), unix.MSG_DONTWAIT, 0, 0)
	} else {
		n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(v.header())), unix.MSG_DONTWAIT)
	}
	acquireIO()
	return done(n, errno)
}

func (v *Vectors) header() *unix.Msghdr {
	v.msg = unix.Msghdr{Iov: &v.iov[0]}
	v.msg.SetIovlen(v.n)
	return &v.msg
}

func done(n uintptr, errno syscall.Errno) (int, error) {
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, ErrAgain
	}
	return 0, errno
}
