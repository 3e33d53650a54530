package osys

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// SendFD sends msg with a copy of descriptor fd over c. fd stays the caller's.
func SendFD(c *net.UnixConn, msg []byte, fd int) error {
	n, oob, err := c.WriteMsgUnix(msg, unix.UnixRights(fd), nil)
	if err != nil {
		return err
	}
	if n != len(msg) || oob == 0 {
		return fmt.Errorf("sent %d of %d bytes beside a descriptor", n, len(msg))
	}
	return nil
}

// RecvFD fills msg from c and returns the one descriptor that came with its
// first byte. Any other number of descriptors is an error and all are closed.
// The caller closes the descriptor.
func RecvFD(c *net.UnixConn, msg []byte) (fd int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(msg, oob)
	if err != nil {
		return -1, err
	}
	fds := parseRights(oob[:oobn])
	switch {
	case flags&unix.MSG_CTRUNC != 0 || len(fds) != 1:
		closeAll(fds)
		return -1, fmt.Errorf("%d descriptors came, want exactly 1", len(fds))
	case n != len(msg):
		closeAll(fds)
		return -1, fmt.Errorf("%d bytes came beside the descriptor, want %d", n, len(msg))
	}
	return fds[0], nil
}

// parseRights returns every descriptor that the control message holds; what
// cannot be parsed holds none.
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

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// CheckSameUser returns an error unless the process at the other end of c runs
// as our effective user.
func CheckSameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var sysErr error
	if err := raw.Control(func(fd uintptr) {
		cred, sysErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if sysErr != nil {
		return fmt.Errorf("getsockopt(SO_PEERCRED): %w", sysErr)
	}
	if int(cred.Uid) != unix.Geteuid() {
		return fmt.Errorf("peer process %d runs as user %d, we run as %d", cred.Pid, cred.Uid, unix.Geteuid())
	}
	return nil
}

// Busy reports whether err is a unix socket's answer that its backlog is full,
// so that the caller should connect again a little later.
func Busy(err error) bool { return errors.Is(err, unix.EAGAIN) }
