package rank

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// helloTimeout is how long a connection may take to prove itself.
	helloTimeout = time.Second

	// dialTimeout is how long the dialing side waits for that.
	dialTimeout = 5 * time.Second

	// maxWaiting is how many connections may be proving themselves at once.
	// When one more comes, the oldest has to go: a rank needs some hundred
	// microseconds, so that it is one of many silent strangers that goes.
	maxWaiting = 128
)

// door is the one TCP port of a rank. It lets in who proves that he is a rank
// of the job, and gives the connection to memberlist or to the mesh.
type door struct {
	gate    *gate
	ln      *net.TCPListener
	log     *slog.Logger
	streams chan net.Conn                 // for memberlist
	data    func(peer int, conn net.Conn) // for the mesh; must not block

	stop context.Context
	wg   sync.WaitGroup

	mu      sync.Mutex
	waiting list.List // of net.Conn, oldest first
	warned  bool
}

// openDoor begins to accept connections at ln, until stop is done.
func openDoor(stop context.Context, ln *net.TCPListener, g *gate, log *slog.Logger, data func(int, net.Conn)) *door {
	d := &door{gate: g, ln: ln, log: log, streams: make(chan net.Conn), data: data, stop: stop}
	d.wg.Go(d.serve)
	return d
}

// close stops listening and ends the connections that have not proved
// themselves. It returns when all goroutines are gone.
func (d *door) close() {
	d.ln.Close()
	d.mu.Lock()
	for e := d.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(net.Conn).Close()
	}
	d.mu.Unlock()
	d.wg.Wait()
}

func (d *door) serve() {
	for {
		conn, err := d.ln.AcceptTCP()
		if err != nil {
			if d.stop.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: let some go.
			d.dropOldest()
			d.pause(time.Millisecond)
			continue
		}
		place := d.queue(conn)
		d.wg.Go(func() { d.admit(conn, place) })
	}
}

func (d *door) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.stop.Done():
	}
}

func (d *door) queue(conn net.Conn) *list.Element {
	d.mu.Lock()
	full := d.waiting.Len() >= maxWaiting
	place := d.waiting.PushBack(conn)
	d.mu.Unlock()
	if full {
		d.dropOldest()
	}
	if d.stop.Err() != nil { // close may have gone through the list before
		conn.Close()
	}
	return place
}

func (d *door) dropOldest() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.waiting.Front(); e != nil {
		e.Value.(net.Conn).Close()
		d.waiting.Remove(e)
	}
}

// admit lets one connection prove itself.
func (d *door) admit(conn net.Conn, place *list.Element) {
	conn.SetDeadline(time.Now().Add(helloTimeout))
	peer, ch, err := d.gate.accept(conn)
	d.mu.Lock()
	d.waiting.Remove(place) // nothing happens when dropOldest was quicker
	d.mu.Unlock()
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // fails when dropOldest was quicker
	}
	if err != nil {
		d.stranger(conn.RemoteAddr(), err)
		conn.Close()
		return
	}
	if ch == dataChannel {
		d.data(peer, conn)
		return
	}
	select {
	case d.streams <- conn:
	case <-d.stop.Done():
		conn.Close()
	}
}

// stranger reports the first caller who was refused. There may be thousands.
func (d *door) stranger(from net.Addr, err error) {
	if d.stop.Err() != nil || errors.Is(err, net.ErrClosed) {
		return
	}
	d.mu.Lock()
	first := !d.warned
	d.warned = true
	d.mu.Unlock()
	if first {
		d.log.Warn("treerun: refused somebody who is no rank of this job; others are refused without a word",
			"rank", d.gate.self, "from", from, "error", err)
	}
}

// dial connects to rank to at addr, and lets both sides prove themselves.
func dial(ctx context.Context, g *gate, addr string, to int, ch channel) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = g.dial(conn, to, ch)
	if !unblock() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("reaching %s: %w", addr, err)
	}
	return conn, nil
}

// listen opens a TCP listener and a UDP socket with the same port number at
// addr, whose port may be 0.
func listen(addr *net.TCPAddr) (*net.TCPListener, *net.UDPConn, error) {
	for attempt := 1; ; attempt++ {
		ln, err := net.ListenTCP("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		at := ln.Addr().(*net.TCPAddr)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: addr.IP, Port: at.Port, Zone: addr.Zone})
		if err == nil {
			return ln, udp, nil
		}
		ln.Close()
		// The kernel chose the number for TCP only.
		if addr.Port != 0 || attempt == 20 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, err
		}
	}
}
