//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// greeting is the greeting that a rank of this host has sent on one connection, as far as it
// is complete.
type greeting struct {
	to     netip.AddrPort
	text   []byte
	length int // of hello and proof
	hello  int
}

// greetingLengths are those of hello and proof, by the magic of the hello.
var greetingLengths = map[string][2]int{"trnc": {80, 32}}

// captureGreetings calls f for every greeting that this host sends, once it is complete.
func captureGreetings(f func(greeting)) error {
	const all = 0x0300 // ETH_P_ALL in the order of the network
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, all)
	if err != nil {
		return err
	}
	// A busy machine must not drop packets.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 16<<20); err != nil {
		return err
	}
	fmt.Println("listening")
	flows := map[string]*greeting{}
	repeated := map[string]bool{} // our own repetitions are overheard, too
	buf := make([]byte, 1<<16)
	for {
		n, from, err := syscall.Recvfrom(fd, buf, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if l, ok := from.(*syscall.SockaddrLinklayer); !ok || l.Pkttype != 4 { // PACKET_OUTGOING
			continue
		}
		flow, to, text := parseSegment(buf[:n])
		if len(text) == 0 {
			continue
		}
		s := flows[flow]
		if s == nil {
			size, known := greetingLengths[string(text[:min(len(text), 4)])]
			if !known {
				continue
			}
			s = &greeting{to: to, length: size[0] + size[1], hello: size[0]}
			flows[flow] = s
		}
		if len(s.text) >= s.length {
			continue
		}
		if s.text = append(s.text, text...); len(s.text) >= s.length {
			s.text = s.text[:s.length]
			if !repeated[string(s.text)] {
				repeated[string(s.text)] = true
				go f(*s)
			}
		}
	}
}

// parseSegment returns the data of an IPv4 packet of TCP in an Ethernet frame, its
// destination, and a name of its connection.
func parseSegment(b []byte) (flow string, to netip.AddrPort, text []byte) {
	if len(b) < 14+20 || binary.BigEndian.Uint16(b[12:]) != 0x0800 || b[14]>>4 != 4 || b[23] != syscall.IPPROTO_TCP {
		return "", to, nil
	}
	ip := b[14:]
	if size := int(binary.BigEndian.Uint16(ip[2:])); size <= len(ip) {
		ip = ip[:size]
	}
	head := int(ip[0]&15) * 4
	if len(ip) < head+20 {
		return "", to, nil
	}
	tcp := ip[head:]
	skip := int(tcp[12]>>4) * 4
	if len(tcp) < skip {
		return "", to, nil
	}
	to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip[16:20])), binary.BigEndian.Uint16(tcp[2:]))
	return fmt.Sprintf("%x %x", ip[12:20], tcp[:4]), to, tcp[skip:]
}

// replayGreeting sends the same greeting again, on a connection of its own, in the order of the
// protocol. Among many peers it may take many attempts to get an answer.
func replayGreeting(s greeting) {
	for end := time.Now().Add(maxWait); time.Now().Before(end); {
		c, err := net.DialTimeout("tcp", s.to.String(), time.Second)
		if err != nil {
			return // the port is closed already
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		if verdict := replay(c, s); verdict != "" {
			fmt.Println(verdict, string(s.text[:4]))
			c.Close()
			return
		}
		c.Close()
		time.Sleep(5 * time.Millisecond)
	}
}

// replay returns the outcome on one connection, "" without an answer.
func replay(c net.Conn, s greeting) string {
	const answer = 80
	c.Write(s.text[:s.hello])
	if _, err := io.ReadFull(c, make([]byte, answer)); err != nil {
		return ""
	}
	c.Write(s.text[s.hello:])
	n, err := c.Read(make([]byte, 1))
	if n > 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		return "let in"
	}
	return "refused"
}
