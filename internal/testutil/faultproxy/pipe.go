package faultproxy

import (
	"errors"
	"io"
	"net"
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

// item is what the reading goroutine of a pipe gives to the writing one.
type item struct {
	at   time.Time // not before
	data []byte
	act  Kind // Reset, HalfClose or Close, after data
}

// pipe is one direction. One goroutine reads and applies Kind, another delays
// and writes, so that a delay costs no throughput.
type pipe struct {
	*joint
	from, to *net.TCPConn
	queue    chan item

	mu     sync.Mutex
	fault  Fault
	passed int64  // bytes since fault was set
	tail   []byte // the latest bytes, for Duplicate
	lost   bool   // what comes is thrown away
	shut   bool   // nothing more is written
}

const (
	pieceBytes = 32 << 10
	tailBytes  = 64 << 10
	queueItems = 1024
)

func newPipe(j *joint, from, to *net.TCPConn, f Fault) *pipe {
	return &pipe{joint: j, from: from, to: to, queue: make(chan item, queueItems), fault: f}
}

// set changes the fault. What needs no byte to happen happens now.
func (d *pipe) set(f Fault) {
	d.mu.Lock()
	d.fault, d.passed = f, 0
	d.mu.Unlock()
	if f.After > 0 {
		return
	}
	switch f.Kind {
	case Reset:
		d.reset()
	case Close:
		d.end()
	case HalfClose:
		d.happen()
		d.closeWrite()
	}
}

// read reads until the connection ends.
func (d *pipe) read() {
	defer close(d.queue)
	buf := make([]byte, pieceBytes)
	for {
		n, err := d.from.Read(buf)
		for b := buf[:n]; len(b) > 0; {
			b = d.feed(b)
		}
		if err != nil {
			select {
			case <-d.over: // it was closed here
			default:
				d.put(nil, ending(err))
			}
			return
		}
	}
}

// ending is how an end of one side looks at the other.
func ending(err error) Kind {
	if errors.Is(err, io.EOF) {
		return HalfClose
	}
	return Reset
}

// feed passes on what may pass, and returns the rest, which is fed again when
// the fault has happened.
func (d *pipe) feed(b []byte) (rest []byte) {
	d.mu.Lock()
	pass := len(b)
	if d.lost {
		d.mu.Unlock()
		return nil
	}
	due := d.fault.Kind != None && d.passed+int64(len(b)) >= d.fault.After
	if due {
		pass = int(max(0, d.fault.After-d.passed))
	}
	d.passed += int64(pass)
	d.tail = append(d.tail, b[:pass]...)
	if over := len(d.tail) - tailBytes; over > 0 {
		d.tail = append(d.tail[:0], d.tail[over:]...)
	}
	d.mu.Unlock()
	d.put(b[:pass], None)
	if due && d.happen() == HalfClose {
		d.put(nil, HalfClose)
	}
	return b[pass:]
}

// happen does what the fault says, once, but leaves the closing of a HalfClose
// to the caller. It returns what happened.
func (d *pipe) happen() Kind {
	d.mu.Lock()
	f := d.fault
	d.fault.Kind = None
	var again []byte
	switch f.Kind {
	case Blackhole, HalfClose:
		d.lost = true
	case Duplicate:
		again = append(again, d.tail[len(d.tail)-min(f.Bytes, len(d.tail)):]...)
	}
	d.mu.Unlock()
	switch f.Kind {
	case Stall:
		d.pause(f.Hold)
	case Duplicate:
		d.put(again, None)
	case Reset, Close:
		d.put(nil, f.Kind)
	}
	return f.Kind
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

func (d *pipe) put(b []byte, act Kind) {
	if len(b) == 0 && act == None {
		return
	}
	d.mu.Lock()
	delay := d.fault.Delay
	d.mu.Unlock()
	select {
	case d.queue <- item{time.Now().Add(delay), append([]byte(nil), b...), act}:
	case <-d.over:
	}
}

// write writes what read has put into the queue, until that ends.
func (d *pipe) write() {
	for it := range d.queue {
		if wait := time.Until(it.at); wait > 0 {
			d.pause(wait)
		}
		for b := it.data; len(b) > 0; {
			d.mu.Lock()
			n, shut := d.fault.Piece, d.shut
			d.mu.Unlock()
			if shut {
				break
			}
			if n == 0 || n > len(b) {
				n = len(b)
			}
			if _, err := d.to.Write(b[:n]); err != nil {
				d.reset() // the receiver is gone: the sender has to notice
				break
			}
			b = b[n:]
		}
		switch it.act {
		case Reset:
			d.reset()
		case Close:
			d.end()
		case HalfClose:
			d.closeWrite()
		}
	}
}

func (d *pipe) closeWrite() {
	d.mu.Lock()
	d.shut = true
	d.mu.Unlock()
	d.to.CloseWrite()
}
