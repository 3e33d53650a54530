// Package faultproxy stands between UDP sockets in tests and does to datagrams what
// networks do: it loses, repeats, delays and reorders them, by a seed.
package faultproxy

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// Faults are what happens to datagrams. Chances are of 1.
type Faults struct {
	Loss, Double float64
	Jitter       time.Duration // at most so much later, at random: they overtake each other
	Late         float64       // chance of coming much later
	Lateness     time.Duration // at most how much
}

// Net is a set of proxies, one per address to which datagrams go.
type Net struct {
	t    testing.TB
	seed uint64

	mu     sync.Mutex
	faults Faults
	at     map[netip.AddrPort]*net.UDPConn
	wg     sync.WaitGroup
	closed bool
	tap    func(b []byte) [][]byte
	count  [2]int // that came, that went on
}

// New returns a Net that ends with the test. At first nothing happens to datagrams.
func New(t testing.TB, seed uint64) *Net {
	n := &Net{t: t, seed: seed, at: make(map[netip.AddrPort]*net.UDPConn)}
	t.Cleanup(n.close)
	return n
}

// Set changes what happens from now on.
func (n *Net) Set(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Tap has f see every datagram that comes, before any fault, and say what goes on in
// its place. It is called concurrently.
func (n *Net) Tap(f func(b []byte) [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tap = f
}

// Count returns how many datagrams came, and how many went on.
func (n *Net) Count() (came, went int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[0], n.count[1]
}

// Via returns the address to send to in place of at.
func (n *Net) Via(at netip.AddrPort) netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.at[at]
	if c == nil {
		var err error
		if c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr(), 0))); err != nil {
			n.t.Fatal(err)
		}
		_ = c.SetReadBuffer(1 << 20)
		n.at[at] = c
		r := rand.New(rand.NewPCG(n.seed, uint64(at.Port())<<8|uint64(len(n.at))))
		n.wg.Go(func() { n.serve(c, at, r) })
	}
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// serve passes on what comes to c.
func (n *Net) serve(c *net.UDPConn, to netip.AddrPort, r *rand.Rand) {
	b := make([]byte, 1<<16)
	for {
		k, _, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		n.mu.Lock()
		f, tap := n.faults, n.tap
		n.count[0]++
		n.mu.Unlock()
		list := [][]byte{append([]byte(nil), b[:k]...)}
		if tap != nil {
			list = tap(list[0])
		}
		for _, d := range list {
			if r.Float64() >= f.Loss {
				n.pass(c, to, d, f.delay(r))
			}
			if r.Float64() < f.Double {
				n.pass(c, to, d, f.delay(r))
			}
		}
	}
}

// delay draws how much later a datagram comes.
func (f *Faults) delay(r *rand.Rand) time.Duration {
	if r.Float64() < f.Late {
		return time.Duration(r.Int64N(int64(f.Lateness) + 1))
	}
	return time.Duration(r.Int64N(int64(f.Jitter) + 1))
}

func (n *Net) pass(c *net.UDPConn, to netip.AddrPort, d []byte, after time.Duration) {
	send := func() {
		if _, err := c.WriteToUDPAddrPort(d, to); err == nil {
			n.mu.Lock()
			n.count[1]++
			n.mu.Unlock()
		}
	}
	if after < 50*time.Microsecond {
		send()
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.wg.Add(1)
		time.AfterFunc(after, func() {
			defer n.wg.Done()
			send()
		})
	}
}

func (n *Net) close() {
	n.mu.Lock()
	n.closed = true
	for _, c := range n.at {
		c.Close()
	}
	n.mu.Unlock()
	n.wg.Wait()
}
