package testutil

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// joint is one connection through the proxy: near is the dialing side's, far
// the one to the target.
type joint struct {
	near, far *net.TCPConn
	up, down  *pipe
	once      sync.Once
	over      chan struct{} // closed by end
}

// end closes both sides in good order. It may be called again and again.
func (j *joint) end() {
	j.once.Do(func() {
		close(j.over)
		j.near.Close()
		j.far.Close()
	})
}

// reset ends both sides with a TCP reset.
func (j *joint) reset() {
	j.near.SetLinger(0)
	j.far.SetLinger(0)
	j.end()
}

// pipe is one direction. One goroutine reads, does what the fault says, and writes.
type pipe struct {
	*joint
	from, to *net.TCPConn

	mu     sync.Mutex
	fault  Fault
	passed int64  // bytes since fault was set
	tail   []byte // the latest bytes, for Duplicate
	lost   bool   // what comes is thrown away
}

const (
	pieceBytes = 32 << 10
	tailBytes  = 64 << 10
)

// set changes the fault. What needs no byte to happen happens now.
func (d *pipe) set(f Fault) {
	d.mu.Lock()
	d.fault, d.passed = f, 0
	d.mu.Unlock()
	if f.After == 0 && (f.Kind == Reset || f.Kind == HalfClose || f.Kind == Close) {
		d.happen()
	}
}

// run passes on what comes until the connection ends, and then how it ended.
func (d *pipe) run() {
	buf := make([]byte, pieceBytes)
	for {
		n, err := d.from.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			b = d.feed(b)
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			d.to.CloseWrite()
		case !errors.Is(err, net.ErrClosed): // it was not closed here
			d.reset()
		}
		return
	}
}

// feed passes on what may pass, and returns the rest, which is fed again when
// the fault has happened.
func (d *pipe) feed(b []byte) (rest []byte) {
	d.mu.Lock()
	if d.lost {
		d.mu.Unlock()
		return nil
	}
	f, pass := d.fault, len(b)
	due := f.Kind != None && d.passed+int64(len(b)) >= f.After
	if due {
		pass = int(max(0, f.After-d.passed))
	}
	d.passed += int64(pass)
	d.tail = append(d.tail, b[:pass]...)
	d.tail = d.tail[max(0, len(d.tail)-tailBytes):]
	d.mu.Unlock()
	if f.Delay > 0 {
		d.pause(f.Delay)
	}
	d.write(b[:pass], f.Piece)
	if due {
		d.happen()
	}
	return b[pass:]
}

// happen does what the fault says, once.
func (d *pipe) happen() {
	d.mu.Lock()
	f := d.fault
	d.fault.Kind = None
	d.lost = d.lost || f.Kind == Blackhole || f.Kind == HalfClose
	again := bytes.Clone(d.tail[max(0, len(d.tail)-f.Bytes):])
	d.mu.Unlock()
	switch f.Kind {
	case Stall:
		d.pause(f.Hold)
	case Duplicate:
		d.write(again, f.Piece)
	case Reset:
		d.reset()
	case HalfClose:
		d.to.CloseWrite()
	case Close:
		d.end()
	}
}

// pause waits, for good when hold is 0, but not longer than the joint lives.
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

// write writes b, at most piece bytes at once unless that is 0.
func (d *pipe) write(b []byte, piece int) {
	if piece == 0 {
		piece = pieceBytes + tailBytes
	}
	for part := range slices.Chunk(b, piece) {
		if _, err := d.to.Write(part); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if !d.lost { // the receiver is gone: the sender has to notice
				d.reset()
			}
			return
		}
	}
}
