//go:build linux

package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/treerun/treerun/internal/netconn"
)

// ErrProtocol is the error for data that no launcher or agent of treerun sends.
var ErrProtocol = errors.New("protocol error")

// Conn is the connection between a launcher and an agent, or two agents, from the end of their introduction on. It
// carries frames, and streams of bytes next to them, none of which delays another. Its methods may be called
// concurrently, except Read and Watch, each of which is for one goroutine. The zero value is a connection that has not
// begun: it queues the frames that are sent.
type Conn struct {
	raw     *monitored
	mux     *yamux.Session
	control net.Conn // the first stream, with the frames
	in      *bufio.Reader
	out     Queue[*Frame] // to control

	paused atomic.Bool // the other side has announced that it will be silent
}

// StreamWindow is the maximum number of bytes of a stream that may be under way.
const StreamWindow = 256 << 10

// Begin starts the protocol on raw, whose reader is r: with a first frame on the launcher's side, without one on the
// agent's.
func (c *Conn) Begin(r io.Reader, raw io.ReadWriteCloser, first *Frame) error {
	c.raw = &monitored{Reader: r, WriteCloser: raw}
	newSession, open, queued := yamux.Server, (*yamux.Session).Accept, []*Frame(nil)
	if first != nil {
		newSession, open, queued = yamux.Client, (*yamux.Session).Open, []*Frame{first}
	}
	var err error
	// Only Watch detects that a connection is dead, and a reader may be slow.
	if c.mux, err = newSession(c.raw, &yamux.Config{
		AcceptBacklog: 256, KeepAliveInterval: math.MaxInt64, ConnectionWriteTimeout: math.MaxInt64,
		MaxStreamWindowSize: StreamWindow, LogOutput: io.Discard,
	}); err != nil {
		return err
	}
	if c.control, err = open(c.mux); err != nil {
		return c.endReason(err)
	}
	c.in = bufio.NewReader(c.control)
	c.out.Begin(c.write, queued...)
	return nil
}

// Send queues a frame after those that were sent before. It does not wait.
func (c *Conn) Send(f *Frame) { c.out.Add(f) }

func (c *Conn) write(queue []*Frame) {
	var b []byte
	for _, f := range queue {
		b = f.Append(b)
	}
	_, _ = c.control.Write(b) // Read returns the end of the connection
}

// Read returns the next frame. The error is ErrProtocol, or the reason why the connection has ended: io.EOF when the
// other side has ended it. After an error the connection is unusable.
func (c *Conn) Read() (*Frame, error) {
	f, err := Read(c.in)
	if err != nil {
		return nil, c.endReason(err)
	}
	if sig, ok := f.Body.(*Signal); ok && (sig.Number == syscall.SIGTSTP || sig.Number == syscall.SIGCONT) {
		c.paused.Store(sig.Number == syscall.SIGTSTP)
	}
	return f, nil
}

// endReason returns the reason for the end of the protocol, and ends the connection. err is the error with which it was
// noticed.
func (c *Conn) endReason(err error) error {
	ended := c.raw.ended.Load()
	_ = c.mux.Close()
	if ended != nil {
		return *ended
	}
	if _, cause := c.mux.Accept(); cause != nil && (err == io.EOF || errors.Is(err, yamux.ErrSessionShutdown)) {
		err = cause
	}
	return fmt.Errorf("%w: %w", ErrProtocol, err)
}

// Stream opens a stream that begins with a frame, which describes it.
func (c *Conn) Stream(f *Frame) (net.Conn, error) {
	s, err := c.mux.Open()
	if err != nil {
		return nil, err
	}
	if _, err = s.Write(f.Append(nil)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Serve calls take, in goroutines, with the streams that the other side opens. It returns when the connection has
// ended.
func (c *Conn) Serve(handle func(*Frame, net.Conn)) {
	for {
		s, err := c.mux.Accept()
		if err != nil {
			return
		}
		go func() {
			f, err := Read(s)
			if err != nil {
				_ = s.Close()
				return
			}
			handle(f, s)
		}()
	}
}

// Relay copies src to a stream, and returns when the other side has read all of it, which it shows by closing the
// stream.
func Relay(stream net.Conn, src io.Reader) {
	_, _ = io.Copy(stream, src) // any error is an end as well
	_ = stream.Close()
	_, _ = stream.Read(make([]byte, 1))
}

// Watch pings the other side at every interval, and calls tick, until the connection ends. It returns true, and
// earlier, when nothing has arrived for more than limit consecutive intervals, unless the other side has announced a
// pause.
func (c *Conn) Watch(interval time.Duration, limit int, tick func()) (silent bool) {
	var pinging atomic.Bool // a ping without an answer yet
	return c.raw.Watch(c.mux.CloseChan(), interval, limit, func() {
		if pinging.CompareAndSwap(false, true) {
			go func() {
				_, _ = c.mux.Ping() // the answer counts as a heartbeat
				pinging.Store(false)
			}()
		}
		if c.paused.Load() {
			c.raw.Received()
		}
		tick()
	})
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.raw.Close() }

// monitored is a connection that records signs of life from the other side. Data that cannot be written is dropped: the
// reader returns the data received before the end, and then the end.
type monitored struct {
	io.Reader
	io.WriteCloser
	netconn.Heartbeat
	ended atomic.Pointer[error]
}

func (m *monitored) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if n > 0 {
		m.Received()
	}
	if err != nil {
		m.ended.Store(&err)
	}
	return n, err
}

func (m *monitored) Write(p []byte) (int, error) {
	_, _ = m.WriteCloser.Write(p)
	return len(p), nil
}

// Pipes makes a connection of two files.
type Pipes struct {
	io.ReadCloser
	Out io.WriteCloser
}

// Write writes to Out.
func (p *Pipes) Write(b []byte) (int, error) { return p.Out.Write(b) }

// Close closes both files.
func (p *Pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.Out.Close()) }

// Queue passes values that are added to a function, in order and in batches, in a goroutine that lives while there are
// any. Add does not wait. Its methods may be called concurrently; the zero value keeps the values until Begin.
type Queue[T any] struct {
	mu     sync.Mutex
	handle func([]T)
	queued []T
	busy   bool // the goroutine runs
}

// Begin passes the values of first, then those added before the call and all later ones, to do. Call it once.
func (q *Queue[T]) Begin(do func([]T), first ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handle, q.queued = do, append(first, q.queued...)
	q.startWorker()
}

// Add adds a value.
func (q *Queue[T]) Add(v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued = append(q.queued, v)
	q.startWorker()
}

// startWorker starts the goroutine if it has work. The caller holds mu.
func (q *Queue[T]) startWorker() {
	if q.handle == nil || q.busy || len(q.queued) == 0 {
		return
	}
	q.busy = true
	go func() {
		for batch := q.takeBatch(); len(batch) > 0; batch = q.takeBatch() {
			q.handle(batch)
		}
	}()
}

// takeBatch returns the waiting values; without any, the goroutine ends.
func (q *Queue[T]) takeBatch() (batch []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch, q.queued = q.queued, nil
	q.busy = len(batch) > 0
	return batch
}
