package testutil

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// All ports given out are below those that Linux gives to who asks for any (from 32768 on), so
// that no other socket takes one between here and its use. They are divided into regions, of
// which a process holds one: tests of several packages run at a time.
const (
	lowest, highest = 10_000, 31_000
	region          = 1000 // ports
)

// ports are those of this process.
var ports struct {
	sync.Mutex
	base  int            // the first port of the region less one; 0: none is held yet
	used  int            // how many of it were given out
	claim net.PacketConn // a socket of a name that only one process of the network namespace can have
}

// name is what those names begin with.
var name = "@freeport-"

// FreeAddress returns an address of 127.0.0.1 at which nobody listens, neither for TCP
// nor for UDP. In one process none is given out twice, but after hundreds, and no
// other process is given it as long as this one is there.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range region {
		if at := fmt.Sprintf("127.0.0.1:%d", FreePorts(1)); free(at) {
			return at
		}
	}
	t.Fatalf("freeport: %d ports are taken", region)
	return ""
}

// FreePorts returns the first of n ports in a row, of which most are free and none is
// given out otherwise; after the last of the process's ports come the first ones again. n is
// 1000 at most.
func FreePorts(n int) (first int) {
	ports.Lock()
	defer ports.Unlock()
	for i := 0; ports.base == 0; i++ {
		const regions = (highest - lowest) / region
		base := lowest + (os.Getpid()+i)%regions*region
		claim, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: fmt.Sprint(name, base), Net: "unixgram"})
		if err == nil || i == regions { // more processes than regions: nobody else may want its ports just now
			ports.base, ports.claim = base, claim
		}
	}
	if ports.used+n > region {
		ports.used = 0
	}
	first = ports.base + ports.used + 1
	ports.used += n
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
