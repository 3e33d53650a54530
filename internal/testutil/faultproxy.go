package testutil

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// Kind is a kind of fault in one direction of a connection.
type Kind int

// The kinds of faults. The zero value is no fault.
const (
	None      Kind = iota
	Blackhole      // data is read and discarded, permanently
	Stall          // nothing is read for Hold; the accumulated data is passed on afterwards
	Reset          // both directions end with a TCP reset
	HalfClose      // this direction ends in good order, the other continues
	Close          // both directions end in good order
	Duplicate      // the latest Bytes bytes are sent a second time, once
)

// Fault describes a fault in one direction of a connection: in the data that the dialing side sends (up) or that the
// listening side sends (down).
type Fault struct {
	Delay time.Duration // delay of the data of one read
	Piece int           // maximum number of bytes of one write; 0: no limit

	After int64         // number of bytes that are passed on before Kind happens
	Kind  Kind          //
	Hold  time.Duration // duration of a Stall; 0: until the connection ends
	Bytes int           // number of bytes that a Duplicate repeats; fewer if fewer were sent
}

// Proxy is a TCP proxy that imitates faults of networks and hosts: it delays bytes, passes them on one by one, loses
// them, stops reading, resets, closes one direction or both, or repeats some. It accepts connections and joins each to
// a new one to its target.
//
// It runs in the test's process, so the kernels at both ends continue to acknowledge: a link that is cut in the middle
// needs network namespaces, see internal/testutil/nethosts.
type Proxy struct {
	target string
	ln     *net.TCPListener
	wg     sync.WaitGroup

	mu       sync.Mutex
	up, down Fault    // of future connections
	joints   []*joint // all joints so far
	closed   bool
}

// NewProxy starts a proxy to target, "host:port". It listens on the loopback address of target's family, and is closed,
// with all its connections, when the test ends.
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
	p := &Proxy{target: target, ln: ln}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		ln.Close()
		p.end(false)
		p.wg.Wait()
	})
	return p
}

// Addr returns the address at which the proxy listens.
func (p *Proxy) Addr() netip.AddrPort { return p.ln.Addr().(*net.TCPAddr).AddrPort() }

// Next sets the faults of connections that are accepted from now on.
func (p *Proxy) Next(up, down Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
}

// Reset ends all connections with a TCP reset, and all future ones.
func (p *Proxy) Reset() { p.end(true) }

func (p *Proxy) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, j := range p.joints {
		j.end(reset)
	}
}

func (p *Proxy) serve() {
	for {
		near, err := p.ln.AcceptTCP()
		if err != nil {
			return // the listener is closed
		}
		p.mu.Lock()
		up, down := p.up, p.down
		p.mu.Unlock()
		p.wg.Go(func() { p.join(near, up, down) })
	}
}

// join connects near to the target, and returns when both directions have ended.
func (p *Proxy) join(near *net.TCPConn, up, down Fault) {
	to, err := net.DialTimeout("tcp", p.target, 10*time.Second)
	if err != nil {
		near.SetLinger(0) // as if the target had refused
		near.Close()
		return
	}
	far := to.(*net.TCPConn)
	j := &joint{ends: [2]*net.TCPConn{near, far}, over: make(chan struct{})}
	p.mu.Lock()
	if p.joints = append(p.joints, j); p.closed {
		j.end(false)
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go((&pipe{joint: j, from: near, to: far, fault: up}).run)
	both.Go((&pipe{joint: j, from: far, to: near, fault: down}).run)
	both.Wait()
}

// joint is one connection through the proxy.
type joint struct {
	ends [2]*net.TCPConn
	once sync.Once
	over chan struct{} // closed by end
}

// end closes both sides, in good order or with a TCP reset. It may be called repeatedly.
func (j *joint) end(reset bool) {
	j.once.Do(func() {
		close(j.over)
		for _, c := range j.ends {
			if reset {
				c.SetLinger(0)
			}
			c.Close()
		}
	})
}

// pipe is one direction. One goroutine reads, applies the fault, and writes.
type pipe struct {
	*joint
	from, to *net.TCPConn
	fault    Fault
	passed   int64
	tail     []byte // the latest bytes, for Duplicate
	lost     bool   // data is discarded
}

// run passes data on until the connection ends, and then passes on the way in which it ended.
func (d *pipe) run() {
	buf := make([]byte, 32<<10)
	for {
		n, err := d.from.Read(buf)
		b := buf[:n]
		if n > 0 && d.fault.Kind != None && d.passed+int64(n) >= d.fault.After {
			b = b[d.fault.After-d.passed:]
			d.pass(buf[:n-len(b)])
			d.happen()
		}
		d.pass(b)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			d.to.CloseWrite()
		case !errors.Is(err, net.ErrClosed): // the proxy did not close it
			d.end(true)
		}
		return
	}
}

// pass passes b on.
func (d *pipe) pass(b []byte) {
	if d.lost || len(b) == 0 {
		return
	}
	if d.fault.Delay > 0 {
		d.pause(d.fault.Delay)
	}
	d.passed += int64(len(b))
	d.tail = append(d.tail, b...)
	d.tail = d.tail[max(0, len(d.tail)-d.fault.Bytes):]
	d.write(b)
}

// happen applies the fault, once.
func (d *pipe) happen() {
	kind := d.fault.Kind
	d.fault.Kind = None
	d.lost = kind == Blackhole || kind == HalfClose
	switch kind {
	case Stall:
		d.pause(d.fault.Hold)
	case Duplicate:
		d.write(d.tail)
	case HalfClose:
		d.to.CloseWrite()
	case Reset, Close:
		d.end(kind == Reset)
	}
}

// pause waits for hold, forever if hold is 0, but not longer than the joint lives.
func (d *pipe) pause(hold time.Duration) {
	var after <-chan time.Time
	if hold > 0 {
		after = time.After(hold)
	}
	select {
	case <-after:
	case <-d.over:
	}
}

// write writes b, in pieces if the fault requires it.
func (d *pipe) write(b []byte) {
	for part := range slices.Chunk(b, max(1, cmp.Or(d.fault.Piece, len(b)))) {
		if _, err := d.to.Write(part); err != nil {
			d.end(true) // the receiver is gone: the sender must notice
			return
		}
	}
}
