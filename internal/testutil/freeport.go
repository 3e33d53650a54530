package testutil

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"
)

// All ports given out are below those that Linux assigns to sockets without a port (from 32768 on), so that no other
// socket takes one between the call and its use.
const lowest, highest = 10_000, 31_000

// claims holds sockets whose names only one process of the network namespace can have, one for every port that was
// given out: tests of several packages run at the same time.
var claims sync.Map

// name is the prefix of those names.
var name = "@freeport-"

// FreeAddress returns an address of 127.0.0.1 at which no process listens. No address is given out twice, in this
// process or another, as long as this process lives.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range highest - lowest {
		if at := fmt.Sprintf("127.0.0.1:%d", FreePorts(1)); free(at) {
			return at
		}
	}
	t.Fatal("freeport: all ports are taken")
	return ""
}

// FreePorts returns the first of n consecutive ports, of which most are free and none is given out elsewhere.
func FreePorts(n int) (first int) {
	for {
		first := lowest + rand.IntN(highest-lowest-n)
		k := 0
		for k < n && claim(first+k) {
			k++
		}
		if k == n {
			return first
		}
	}
}

func claim(port int) bool {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: fmt.Sprint(name, port), Net: "unixgram"})
	if err == nil {
		claims.Store(port, c)
	}
	return err == nil
}

func free(at string) bool {
	syscall.ForkLock.RLock() // a process that is forked in the meantime would have this socket until it runs its program
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", at)
	if err == nil {
		l.Close()
	}
	return err == nil
}
