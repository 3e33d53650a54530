package testutil

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// Kind says what happens to one direction of a connection.
type Kind int

// What can happen. The zero value is nothing at all.
const (
	None      Kind = iota
	Blackhole      // what comes is read and thrown away, for good
	Stall          // nothing is read for Hold; what piles up comes afterwards
	Reset          // both directions end with a TCP reset
	HalfClose      // this direction ends in good order, the other goes on
	Close          // both directions end in good order
	Duplicate      // the latest Bytes bytes come a second time, once
)

// Fault is what happens to one direction of a connection: to what the dialing
// side sends (up) or to what the listening side sends (down).
type Fault struct {
	Delay time.Duration // what is read at once comes that much later
	Piece int           // at most so many bytes are written at once; 0: as they come

	After int64         // so many bytes get through before Kind happens
	Kind  Kind          //
	Hold  time.Duration // how long a Stall lasts; 0: until the connection ends
	Bytes int           // how many bytes a Duplicate repeats; fewer when fewer have come
}

// Proxy is a TCP proxy that does to connections what networks and hosts do to them: it delays bytes,
// hands them on one by one, loses them, stops reading, resets, closes one direction or both, or
// repeats some. It accepts connections and joins each to a new one to its target.
//
// It runs in the test's process, so both kernels beside it go on to acknowledge: a link that is cut
// in the middle needs network namespaces, see internal/testutil/nethosts.
type Proxy struct {
	target string
	ln     *net.TCPListener
	stop   chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex
	up, down Fault // of connections to come
	live     map[*joint]struct{}
}

// NewProxy starts a proxy to target, "host:port". It listens on the loopback
// address of target's family, and ends, with all its connections, when the
// test does.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if to, err := netip.ParseAddrPort(target); err == nil && to.Addr().Is6() {
		at.IP = net.IPv6loopback
	}
	ln, err := net.ListenTCP("tcp", at)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &Proxy{target: target, ln: ln, stop: make(chan struct{}), live: make(map[*joint]struct{})}
	p.wg.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() netip.AddrPort { return p.ln.Addr().(*net.TCPAddr).AddrPort() }

// Next sets what happens to connections that come from now on.
func (p *Proxy) Next(up, down Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
}

// Inject sets what happens to connections that are there already. After counts
// from now on. With After 0 a Reset, HalfClose or Close happens at once; the other
// kinds wait for the next byte.
func (p *Proxy) Inject(up, down Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for j := range p.live {
		j.up.set(up)
		j.down.set(down)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	close(p.stop)
	p.ln.Close()
	for j := range p.live {
		j.end()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) serve() {
	for {
		c, err := p.ln.AcceptTCP()
		if err != nil {
			return // only close makes it fail
		}
		p.mu.Lock()
		up, down := p.up, p.down
		p.mu.Unlock()
		p.wg.Go(func() { p.join(c, up, down) })
	}
}

// join connects c with the target, and returns when both directions have ended.
func (p *Proxy) join(c *net.TCPConn, up, down Fault) {
	far, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		c.SetLinger(0) // as if the target had refused
		c.Close()
		return
	}
	j := &joint{near: c, far: far.(*net.TCPConn), over: make(chan struct{})}
	j.up = &pipe{joint: j, from: j.near, to: j.far, fault: up}
	j.down = &pipe{joint: j, from: j.far, to: j.near, fault: down}
	p.mu.Lock()
	select {
	case <-p.stop:
		j.end()
	default:
		p.live[j] = struct{}{}
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, d := range []*pipe{j.up, j.down} {
		both.Go(d.run)
	}
	both.Wait()
	j.end()
	p.mu.Lock()
	delete(p.live, j)
	p.mu.Unlock()
}
