package testutil

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// All ports given out are below those that Linux gives to who asks for any (from
// 32768 on), so that no other socket takes one between here and its use. They are
// divided into regions, and a process holds those that it takes ports from:
// tests of several packages run at a time.
const (
	lowest, highest = 10_000, 31_000
	region          = 1000 // ports
)

// ports are those of this process.
var ports struct {
	sync.Mutex
	held      []held
	last, end int // the port that was given out last, and the last of its region
}

// held is a region: its first port less one, and a socket of a name that only one
// process can have. The name is of the network namespace, as ports are.
type held struct {
	base  int
	claim net.PacketConn
}

// name is what those names begin with.
var name = "@freeport-"

// FreeAddress returns an address of 127.0.0.1 at which nobody listens, neither for TCP
// nor for UDP. In one process none is given out twice, but after thousands, and no
// other process is given it as long as this one is there.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		if at := fmt.Sprintf("127.0.0.1:%d", FreePorts(1)); free(at) {
			return at
		}
	}
	t.Fatal("freeport: 1000 ports are taken")
	return ""
}

// FreePorts returns the first of n ports in a row, of which most are free and none is
// given out otherwise. n is 1000 at most.
func FreePorts(n int) (first int) {
	ports.Lock()
	defer ports.Unlock()
	if ports.last+n > ports.end {
		ports.last = nextRegion()
		ports.end = ports.last + region
	}
	first = ports.last + 1
	ports.last += n
	return first
}

// nextRegion takes another region that nobody holds. When there is none, those of
// this process begin anew.
func nextRegion() (base int) {
	const regions = (highest - lowest) / region
	for i := range regions {
		base = lowest + (os.Getpid()+i)%regions*region
		claim, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: fmt.Sprint(name, base), Net: "unixgram"})
		if err == nil {
			ports.held = append(ports.held, held{base, claim})
			return base
		}
	}
	if len(ports.held) == 0 {
		return base // more processes than regions: nobody else may want this one's ports just now
	}
	first := ports.held[0]
	ports.held = append(ports.held[1:], first)
	return first.base
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
