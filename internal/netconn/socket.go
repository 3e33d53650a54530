package netconn

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// maxPeerTimeout is the longest time for SetPeerTimeout: Linux allows 32767 seconds before the first keepalive probe.
const maxPeerTimeout = keepaliveShare * 32767 * time.Second

const keepaliveShare = 3 // the part of the time without data after which probes begin: one third

// SetPeerTimeout makes c fail when its peer's host has not answered for about d: for unacknowledged data by
// TCP_USER_TIMEOUT, and while no data is sent by keepalive probes. A process that is stopped lets it answer. It also
// turns Nagle's algorithm off. d is raised to at least a second. Precondition: d is at most maxPeerTimeout.
func SetPeerTimeout(c *net.TCPConn, d time.Duration) error {
	d = max(d, time.Second)
	err := c.SetNoDelay(true)
	if err == nil {
		// With TCP_USER_TIMEOUT the kernel uses that time, not Count.
		err = c.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: true, Idle: max(d/keepaliveShare, time.Second), Interval: max(d/6, time.Second), Count: 4,
		})
	}
	if err != nil {
		return err
	}
	return onSocket(c, func(fd int) error { return setUserTimeout(fd, d) })
}

// TooLarge is a possible reason why data does not arrive on a connection over which small packets pass.
const TooLarge = "packets that are too large for a switch (MTU)"

// Jumbo returns ", or " and TooLarge for a TCP connection whose packets are larger than those of plain Ethernet, "" for
// others. A loopback has no switch between its ends.
func Jumbo(c net.Conn) (text string) {
	if k, is := c.(*Conn); is {
		c = k.raw
	}
	if k, is := c.(*net.TCPConn); is {
		_ = onSocket(k, func(fd int) error {
			text = JumboSocket(fd)
			return nil
		})
	}
	return text
}

// Stalled returns err, an error of a connection, with a possible cause added if err is a timeout and packets are large.
// jumbo is the result of Jumbo for the connection.
func Stalled(jumbo string, err error) error {
	var slow net.Error
	if jumbo != "" && errors.As(err, &slow) && slow.Timeout() {
		return fmt.Errorf("%w: the network between is cut%s", err, jumbo)
	}
	return err
}

// onSocket calls f with the descriptor of c.
func onSocket(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if ctl := raw.Control(func(fd uintptr) { err = f(int(fd)) }); ctl != nil {
		return ctl
	}
	return err
}
