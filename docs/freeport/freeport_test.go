package freeport

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

func TestAddress(t *testing.T) {
	seen := map[netip.AddrPort]bool{}
	for range 100 {
		at := netip.MustParseAddrPort(Address(t))
		if p := int(at.Port()); seen[at] || p <= lowest || p > highest || !at.Addr().IsLoopback() {
			t.Fatalf("%v, after %v", at, seen)
		}
		seen[at] = true
	}
	// What is taken is passed over, of either kind.
	first := Range(3)
	last.port = first - 1
	if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first)); err == nil { // else somebody else has it
		defer l.Close()
	}
	if u, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", first+1)); err == nil {
		defer u.Close()
	}
	if at := netip.MustParseAddrPort(Address(t)); int(at.Port()) < first+2 {
		t.Errorf("%v is taken", at)
	}
}

// At the end the ports begin anew.
func TestRange(t *testing.T) {
	last.port = highest - 5
	if first := Range(10); first != lowest+1 {
		t.Errorf("10 ports from %d on", first)
	}
	if first := Range(1); first != lowest+11 {
		t.Errorf("then port %d", first)
	}
}
