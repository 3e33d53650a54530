//go:build linux

package netconn

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A connection whose options cannot be set is closed.
func TestConnectWithoutOptions(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	m := &Mesh{cfg: Config{PeerTimeout: 10_000 * time.Hour}} // more than the kernel takes
	_, err = m.connect(t.Context(), path{at: place{Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Port: at.Port()}}, 1,
		new(atomic.Bool))
	if !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("%v, want %v", err, syscall.EINVAL)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want %v", err, io.EOF)
	}
}
