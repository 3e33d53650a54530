// Package freeport gives tests addresses of the loopback at which nobody listens,
// for a listener that begins later or for none. It knows nothing of treerun. Only
// tests import it.
package freeport

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// last is the port that was given out last. All are below those that Linux gives to
// who asks for any (from 32768 on), so that no other socket takes one between
// here and its use, and tests of other packages begin elsewhere.
var last = struct {
	sync.Mutex
	port int
}{port: lowest + os.Getpid()*7%(highest-lowest)}

const lowest, highest = 10_000, 31_000

// Address returns an address of 127.0.0.1 at which nobody listens, neither for TCP
// nor for UDP. In one process none is given out twice.
func Address(t testing.TB) string {
	t.Helper()
	for range 1000 {
		if at := fmt.Sprintf("127.0.0.1:%d", Range(1)); free(at) {
			return at
		}
	}
	t.Fatal("freeport: 1000 ports are taken")
	return ""
}

// Range returns the first of n ports in a row, of which most are free and none is
// given out otherwise in this process. n is 1000 at most.
func Range(n int) (first int) {
	last.Lock()
	defer last.Unlock()
	if last.port+n > highest {
		last.port = lowest
	}
	first = last.port + 1
	last.port += n
	return first
}

func free(at string) bool {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", at)
	if err != nil {
		return false
	}
	u.Close()
	return true
}
