//go:build linux

package osys

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Doorbell is a datagram socket under an abstract name, on which a process can
// sleep together with other descriptors. What is in it says nothing but that
// somebody rang.
type Doorbell struct{ fd int }

// NewDoorbell opens the socket with a name, which ends with it.
func NewDoorbell(name string) (*Doorbell, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("bind to @%s: %w", name, err)
	}
	return &Doorbell{fd}, nil
}

// Close gives the socket back.
func (d *Doorbell) Close() error { return unix.Close(d.fd) }

// BellAddress is the address of a Doorbell, ready for Knock.
type BellAddress struct {
	raw unix.RawSockaddrUnix
	len uint32
}

// NewBellAddress returns the address of the Doorbell with a name.
func NewBellAddress(name string) (*BellAddress, error) {
	a := &BellAddress{raw: unix.RawSockaddrUnix{Family: unix.AF_UNIX}}
	if len(name) > len(a.raw.Path)-1 {
		return nil, fmt.Errorf("doorbell name of %d bytes, at most %d are possible", len(name), len(a.raw.Path)-1)
	}
	for i := range len(name) {
		a.raw.Path[i+1] = int8(name[i])
	}
	a.len = uint32(unsafe.Offsetof(a.raw.Path)) + 1 + uint32(len(name))
	return a, nil
}

// Knock makes the Doorbell at a readable. When it cannot, the one there has
// been rung often enough already, or is gone. It never blocks.
func (d *Doorbell) Knock(a *BellAddress) {
	var knock [1]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(d.fd), uintptr(unsafe.Pointer(&knock)), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
}

// Wait sleeps until the doorbell was rung, descriptor other is readable (none
// if it is negative), or max has passed. It forgets the rings so far, silenceMax at most, and
// reports whether other is readable. A signal may end it early.
func (d *Doorbell) Wait(other int, max time.Duration) (otherReady bool) {
	fds := [2]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}, {Fd: int32(other), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(int64(max))
	n, _, _ := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if int(n) <= 0 {
		return false
	}
	if fds[0].Revents != 0 {
		d.silence()
	}
	return fds[1].Revents != 0
}

// silenceMax is how many rings one silence takes in: anybody on the host may ring, faster than
// they are read. What is left ends the next Wait early.
const silenceMax = 8

// silence reads what has been sent.
func (d *Doorbell) silence() {
	var b [16]byte
	for range silenceMax {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(d.fd), uintptr(unsafe.Pointer(&b)), uintptr(len(b)),
			unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 || int(n) < 0 {
			return
		}
	}
}

// FD returns the descriptor, which stays the Doorbell's.
func (d *Doorbell) FD() int { return d.fd }
