//go:build linux

package osys

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Doorbell is a datagram socket under an abstract name, on which a process can sleep together with other descriptors. A
// message in it means only that a process has rung.
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

// End ends all waits for the doorbell, also later ones.
func (d *Doorbell) End() { _ = unix.Shutdown(d.fd, unix.SHUT_RD) }

// Close closes the socket.
func (d *Doorbell) Close() error { return unix.Close(d.fd) }

// BellAddress is the address of a Doorbell, ready for Ring.
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

// Ring makes the Doorbell at a readable. When it cannot, that Doorbell has been rung often enough already, or is gone.
// It never blocks.
func (d *Doorbell) Ring(a *BellAddress) {
	var knock [1]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(d.fd), uintptr(unsafe.Pointer(&knock)), 1,
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
}

// SendFD sends a copy of descriptor fd, with token, to the Doorbell of a name. It returns ErrAgain while that one has
// no room. fd still belongs to the caller.
func (d *Doorbell) SendFD(name string, token []byte, fd int) error {
	err := unix.Sendmsg(d.fd, token, unix.UnixRights(fd), &unix.SockaddrUnix{Name: "@" + name},
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return ErrAgain
	}
	return err
}

// SendNone notifies the Doorbell of a name that no descriptor will come: RecvFD there returns ErrNone.
func (d *Doorbell) SendNone(name string, no []byte) error {
	return unix.Sendto(d.fd, no, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: "@" + name})
}

// RecvFD waits up to limit for the one descriptor that comes with token, and drops all other messages except those of
// SendNone: any process of the host may send here. It returns ErrAgain when the descriptor has not arrived. The caller
// closes the descriptor. token and no have the same length.
func (d *Doorbell) RecvFD(token, no []byte, limit time.Duration) (fd int, err error) {
	Poll(d.fd, -1, limit)
	for range silenceMax {
		msg, oob := make([]byte, len(token)+1), make([]byte, unix.CmsgSpace(4*4))
		n, oobn, flags, _, err := unix.Recvmsg(d.fd, msg, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			break
		}
		if err != nil {
			return -1, err
		}
		fds := parseRights(oob[:oobn])
		if len(fds) == 1 && flags&unix.MSG_CTRUNC == 0 && subtle.ConstantTimeCompare(msg[:n], token) == 1 {
			return fds[0], nil
		}
		if subtle.ConstantTimeCompare(msg[:n], no) == 1 {
			return -1, ErrNone
		}
		if fds == nil && flags&unix.MSG_CTRUNC != 0 && subtle.ConstantTimeCompare(msg[:n], token) == 1 {
			return -1, unix.EMFILE // the descriptor arrived, and this process may have no more
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
	return -1, ErrAgain
}

// parseRights returns every descriptor that the control message holds; a message that cannot be parsed holds none.
func parseRights(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range msgs {
		if fds, err := unix.ParseUnixRights(&msgs[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

// Wait sleeps until the doorbell was rung, descriptor other is readable (none if it is negative), or limit has passed.
// It drops the rings so far, silenceMax at most, and reports whether other is readable. A signal may end it early.
func (d *Doorbell) Wait(other int, limit time.Duration) (otherReady bool) {
	rung, otherReady := Poll(d.fd, other, limit)
	if rung {
		d.silence()
	}
	return otherReady
}

// Poll waits until one of two descriptors is readable, or limit has passed. A negative descriptor stands for none. A
// signal may end it early.
func Poll(a, b int, limit time.Duration) (aReady, bReady bool) {
	fds := [2]unix.PollFd{{Fd: int32(a), Events: unix.POLLIN}, {Fd: int32(b), Events: unix.POLLIN}}
	ts := unix.NsecToTimespec(int64(limit))
	n, _, _ := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return int(n) > 0 && fds[0].Revents != 0, int(n) > 0 && fds[1].Revents != 0
}

// silenceMax is the number of rings that one call of silence drops: any process of the host may ring, faster than the
// rings are read. Rings that are left end the next Wait early.
const silenceMax = 8

// silence reads and drops messages.
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

// FD returns the descriptor, which the Doorbell still owns.
func (d *Doorbell) FD() int { return d.fd }
