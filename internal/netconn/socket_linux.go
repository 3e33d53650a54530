package netconn

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds the time for which data may stay unacknowledged.
func setUserTimeout(fd int, d time.Duration) error {
	err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	if err != nil {
		return fmt.Errorf("setsockopt(TCP_USER_TIMEOUT): %w", err)
	}
	return nil
}

// setBacklog sets the number of connections that the system queues for a socket that listens.
func setBacklog(fd, n int) error { return unix.Listen(fd, n) }

// roundTrip returns the minimum round-trip time between c and its peer, as measured by the kernel.
func roundTrip(c *net.TCPConn) (least time.Duration, ok bool) {
	err := onSocket(c, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Min_rtt != ^uint32(0) {
			least, ok = time.Duration(info.Min_rtt)*time.Microsecond, true
		}
		return err
	})
	return least, ok && err == nil
}

// JumboSocket is Jumbo for a socket. The system may close the socket at any time.
func JumboSocket(fd int) string {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Pmtu <= 1500 || info.Pmtu >= 65535 {
		return ""
	}
	return ", or " + TooLarge
}
