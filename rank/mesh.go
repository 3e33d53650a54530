package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// noticeTimeout is how long writing a notice may take.
const noticeTimeout = 100 * time.Millisecond

// mesh is a rank's connections to other ranks. Rank r dials r-1, r-2, r-4, ...
// modulo the number of ranks, and is dialed by r+1, r+2, r+4, ...: the pattern
// of AllGather. Blobs flow from the side that dialed.
//
// News flows there, too: a rank passes on what it did not know yet, over the
// connections that it dialed. Its own Close it also tells those who dialed,
// which is safe, as they then have nothing on the way that it waits for.
type mesh struct {
	gate  *gate
	fate  *fate
	grace time.Duration // how long a lost connection waits for an explanation
	stop  context.Context
	wg    *sync.WaitGroup
	inbox map[int]chan *frame // by peer: frames of blobs

	mu  sync.Mutex
	in  map[int]net.Conn
	out map[int]*outlet
}

// outlet is a connection that this rank dialed.
type outlet struct {
	peer int
	conn net.Conn
	mu   sync.Mutex // held while writing

	queueMu sync.Mutex
	queue   []*frame // notices to be written, in order
}

// newMesh makes a mesh without connections. Its goroutines end with stop, and
// are counted in wg.
func newMesh(stop context.Context, wg *sync.WaitGroup, g *gate, f *fate, grace time.Duration) *mesh {
	m := &mesh{
		gate: g, fate: f, grace: grace, stop: stop, wg: wg,
		inbox: map[int]chan *frame{}, in: map[int]net.Conn{}, out: map[int]*outlet{},
	}
	for step := range stepsOf(g.size) {
		// A peer can be one AllGather ahead, not more.
		m.inbox[m.peer(1<<step)] = make(chan *frame, 2)
	}
	return m
}

// peer returns the rank that is distance ranks further on.
func (m *mesh) peer(distance int) int {
	return ((m.gate.self+distance)%m.gate.size + m.gate.size) % m.gate.size
}

// outlet returns the connection to the rank that is distance ranks further on.
func (m *mesh) outlet(distance int) *outlet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out[m.peer(distance)]
}

// attach takes a connection that peer dialed.
func (m *mesh) attach(peer int, conn net.Conn) {
	m.mu.Lock()
	_, expected := m.inbox[peer]
	if m.in[peer] != nil || !expected || m.stop.Err() != nil {
		m.mu.Unlock()
		conn.Close()
		return
	}
	m.in[peer] = conn
	m.wg.Go(func() { m.read(peer, conn, m.inbox[peer]) })
	m.mu.Unlock()
}

// connect dials all ranks that this one dials; address says where they are. It
// tries again until ctx is done.
func (m *mesh) connect(ctx context.Context, address func(rank int) string) error {
	steps := stepsOf(m.gate.size)
	errs := make(chan error, steps)
	for step := range steps {
		m.wg.Go(func() { errs <- m.reach(ctx, m.peer(-1<<step), address) })
	}
	var all error
	for range steps {
		all = errors.Join(all, <-errs)
	}
	return all
}

func (m *mesh) reach(ctx context.Context, peer int, address func(rank int) string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		conn, err := dial(ctx, m.gate, address(peer), peer, dataChannel)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.stop.Err() != nil {
				conn.Close()
				return context.Cause(m.stop)
			}
			m.out[peer] = &outlet{peer: peer, conn: conn}
			m.wg.Go(func() { m.read(peer, conn, nil) })
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connecting to rank %d: %w", peer, errors.Join(context.Cause(ctx), err))
		case <-time.After(wait):
		}
	}
}

// read takes the frames of one connection until it ends. Blobs go to inbox.
func (m *mesh) read(peer int, conn net.Conn, inbox chan<- *frame) {
	r := bufio.NewReaderSize(conn, 4096)
	for {
		f, err := readFrame(r, m.gate.size)
		if err == nil && f.kind == blobsFrame && (inbox == nil || f.rank != peer) {
			err = fmt.Errorf("blobs of rank %d from rank %d", f.rank, peer)
		}
		if err != nil {
			conn.Close()
			m.lost(peer, err)
			return
		}
		switch f.kind {
		case blobsFrame:
			select {
			case inbox <- f:
			case <-m.stop.Done():
				return
			}
		case leftFrame:
			m.leave(f.rank, f.number)
		case failedFrame:
			m.fail(f.rank, f.text)
		case brokenFrame:
			m.breakOff(f.rank, f.number, errors.New(f.text))
		}
	}
}

// lost is what the end of a connection means. Whoever knows more has some time
// to say so: that the peer closed, or how it died.
func (m *mesh) lost(peer int, err error) {
	if m.fate.hasLeft(peer) {
		return
	}
	select {
	case <-m.stop.Done():
		return
	case <-m.fate.failed:
		return
	case <-time.After(m.grace):
	}
	switch {
	case m.fate.hasLeft(peer):
	case m.fate.hasEnded(peer):
		m.leave(peer, 0)
	case isEnd(err):
		m.fail(peer, "ended without closing its world")
	default:
		m.fail(peer, fmt.Sprintf("lost its connection to rank %d: %v", m.gate.self, err))
	}
}

// isEnd says whether err is how a connection to a process that ends looks, also
// after its reader has closed this side.
func isEnd(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// fail, leave and breakOff note what became of a rank, and pass it on when it
// is news.
func (m *mesh) fail(rank int, what string) {
	if m.fate.fail(rank, what) && rank >= 0 {
		m.tell(notice(failedFrame, rank, 0, what))
	}
}

func (m *mesh) leave(rank int, done uint64) {
	if m.fate.leave(rank, done) {
		m.tell(notice(leftFrame, rank, done, ""))
	}
}

func (m *mesh) breakOff(rank int, number uint64, err error) {
	if m.fate.breakOff(rank, number, err) {
		m.tell(notice(brokenFrame, rank, number, err.Error()))
	}
}

// tell sends a notice to all ranks that this one dialed, without waiting, and
// after all earlier ones.
func (m *mesh) tell(f *frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop.Err() != nil {
		return
	}
	for _, o := range m.out {
		o.put(f)
		m.wg.Go(o.flush)
	}
}

func (o *outlet) put(f *frame) {
	o.queueMu.Lock()
	defer o.queueMu.Unlock()
	o.queue = append(o.queue, f)
}

// flush writes the notices that are queued. Nobody waits for them: the peer may
// be gone, which the connection's reader finds out.
func (o *outlet) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queueMu.Lock()
	queue := o.queue
	o.queue = nil
	o.queueMu.Unlock()
	for _, f := range queue {
		write(o.conn, f)
	}
}

// write writes a notice. It is small; only a peer that does not read makes it
// wait, and then not for long.
func write(conn net.Conn, f *frame) {
	conn.SetWriteDeadline(time.Now().Add(noticeTimeout))
	bufs := net.Buffers(f.encode())
	bufs.WriteTo(conn)
}

// send writes a frame, until ctx is done. After an error the connection is of
// no more use.
func (o *outlet) send(ctx context.Context, f *frame) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn.SetWriteDeadline(time.Time{})
	unblock := context.AfterFunc(ctx, func() { o.conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer unblock()
	bufs := net.Buffers(f.encode())
	n, err := bufs.WriteTo(o.conn)
	if err != nil && n > 0 {
		o.conn.Close() // in the middle of a frame
	}
	return err
}

// goodbye tells all peers that this rank closes after done AllGathers. What it
// knows to have gone wrong before, it says first, so that nobody takes its
// leaving for the cause.
func (m *mesh) goodbye(done uint64) {
	notices := append(m.fate.troubles(), notice(leftFrame, m.gate.self, done, ""))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.out {
		for _, f := range notices {
			o.put(f)
		}
		o.flush()
	}
	for _, conn := range m.in {
		for _, f := range notices {
			write(conn, f)
		}
	}
}

// close ends all connections. The caller has ended stop.
func (m *mesh) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.out {
		o.conn.Close()
	}
	for _, conn := range m.in {
		conn.Close()
	}
}
