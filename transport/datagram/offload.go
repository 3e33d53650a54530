package datagram

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"

	"golang.org/x/net/ipv4"
)

// Linux sends several datagrams of one size to one address as one, which a network
// device or the receiving socket takes apart again (UDP_SEGMENT, UDP_GRO): the way
// through the system costs as much as that of one. The last of them may be shorter.

// Of <linux/udp.h>; neither is in package syscall.
const (
	udpSegment = 103
	udpGRO     = 104
)

// Limits of what is sent as one.
const (
	mostSegments = 64
	mostTogether = 65507 // bytes
)

// controlBytes is the room for what the system says of, or is told with, a message: an
// int32 or less.
var controlBytes = syscall.CmsgSpace(4)

// segmentSize appends the control message by which the system cuts a message into
// datagrams of so many bytes.
func segmentSize(to []byte, size int) []byte {
	data := syscall.CmsgLen(0)
	b := append(to, make([]byte, syscall.CmsgSpace(2))...)[len(to):]
	if data == 16 {
		binary.NativeEndian.PutUint64(b, uint64(data+2))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(data+2))
	}
	binary.NativeEndian.PutUint32(b[data-8:], syscall.IPPROTO_UDP)
	binary.NativeEndian.PutUint32(b[data-4:], udpSegment)
	binary.NativeEndian.PutUint16(b[data:], uint16(size))
	return b
}

// sizeOfSegments returns the size of the datagrams that the system has put together
// into a message of n bytes: n if it has not.
func sizeOfSegments(control []byte, n int) int {
	data := syscall.CmsgLen(0)
	if len(control) < data+4 || binary.NativeEndian.Uint32(control[data-8:]) != syscall.IPPROTO_UDP || binary.NativeEndian.Uint32(control[data-4:]) != udpGRO {
		return n
	}
	if size := int(binary.NativeEndian.Uint32(control[data:])); size > 0 && size < n {
		return size
	}
	return n
}

// takeTogether has the system hand over datagrams that came together as one, if it can.
func takeTogether(conn *net.UDPConn) {
	raw, err := conn.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, udpGRO, 1) })
	}
}

// cannotSegment tells whether an error may be that of a system, a device or a way that
// cannot take a message apart.
func cannotSegment(err error) bool {
	for _, no := range []syscall.Errno{syscall.EINVAL, syscall.EIO, syscall.EMSGSIZE, syscall.EOPNOTSUPP, syscall.ENOPROTOOPT} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// group is datagrams that go as one message.
type group struct {
	to      *link
	size    int // of its datagrams but the last
	bytes   int
	count   int
	message int // in groups.messages
	closed  bool
}

// groups puts datagrams together. A message has one datagram where the system cannot
// take messages apart.
type groups struct {
	messages []ipv4.Message
	sent     int // messages
	open     []group
	single   bool // the system has refused a message of several
}

// add puts a sealed datagram into a message, behind others to the same peer.
func (g *groups) add(to *link, b []byte) {
	for i := range g.open {
		o := &g.open[i]
		if o.to != to || o.closed {
			continue
		}
		if len(b) > o.size || o.bytes+len(b) > mostTogether || o.count == mostSegments || g.single {
			o.closed = true
			continue
		}
		m := &g.messages[o.message]
		if o.count == 1 {
			m.OOB = segmentSize(m.OOB[:0], o.size)
		}
		m.Buffers = append(m.Buffers, b)
		o.bytes += len(b)
		o.count++
		o.closed = len(b) < o.size
		return
	}
	n := len(g.messages)
	if n < cap(g.messages) {
		g.messages = g.messages[:n+1]
	} else {
		g.messages = append(g.messages, ipv4.Message{})
	}
	m := &g.messages[n]
	m.Addr, m.OOB, m.Buffers = to.to, m.OOB[:0], append(m.Buffers[:0], b)
	g.open = append(g.open, group{to: to, size: len(b), bytes: len(b), count: 1, message: n})
}

// rest returns the messages that have not been sent.
func (g *groups) rest() []ipv4.Message { return g.messages[g.sent:] }

// took notes that the system has taken n messages, and returns how many datagrams that
// were.
func (g *groups) took(n int) (datagrams int64) {
	for _, m := range g.messages[g.sent : g.sent+n] {
		datagrams += int64(len(m.Buffers))
	}
	g.sent += n
	return datagrams
}

// clear is for after all have been sent.
func (g *groups) clear() { g.messages, g.open, g.sent = g.messages[:0], g.open[:0], 0 }

// split makes messages of one datagram of those that have not been sent, from now on.
// It reports whether any had more.
func (g *groups) split() (any bool) {
	var all []ipv4.Message
	for _, m := range g.rest() {
		any = any || len(m.Buffers) > 1
		for _, b := range m.Buffers {
			all = append(all, ipv4.Message{Buffers: [][]byte{b}, Addr: m.Addr})
		}
	}
	if any {
		g.messages, g.sent, g.single = all, 0, true
	}
	for i := range g.open {
		g.open[i].closed = true
	}
	return any
}
