package rank

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/netconn"
)

// mesh is a rank's connections to other ranks. Rank r dials r-1, r-2, r-4, ...
// modulo the number of ranks, and is dialed by r+1, r+2, r+4, ...: the pattern
// of AllGather. Blobs flow from the side that dialed.
//
// News flows there, too: a rank passes on what it did not know yet, over the
// connections that it dialed. Its own Close it also tells those who dialed,
// which is safe, as they then have nothing on the way that it waits for.
type mesh struct {
	authenticator *authenticator
	jobState      *jobState
	on            func(rank int) string // " on host c", as World.on
	grace         time.Duration         // how long a lost connection waits for an explanation
	stop          context.Context
	wg            *sync.WaitGroup
	inbox         map[int]chan *frame // by peer: frames of blobs

	mu  sync.Mutex
	in  map[int]*peerConn
	out map[int]*peerConn
}

// newMesh makes a mesh without connections. Its goroutines end with stop, and
// are counted in wg.
func newMesh(stop context.Context, wg *sync.WaitGroup, g *authenticator, f *jobState, grace time.Duration,
	on func(rank int) string) *mesh {
	m := &mesh{
		authenticator: g, jobState: f, on: on, grace: grace, stop: stop, wg: wg,
		inbox: map[int]chan *frame{}, in: map[int]*peerConn{}, out: map[int]*peerConn{},
	}
	for step := range stepsOf(g.size) {
		// A peer can be one AllGather ahead, not more.
		m.inbox[m.peer(1<<step)] = make(chan *frame, 2)
	}
	return m
}

// peer returns the rank that is distance ranks further on.
func (m *mesh) peer(distance int) int {
	return ((m.authenticator.self+distance)%m.authenticator.size + m.authenticator.size) % m.authenticator.size
}

// outlet returns the connection to the rank that is distance ranks further on.
func (m *mesh) outlet(distance int) *peerConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out[m.peer(distance)]
}

// attach takes a connection that peer dialed.
func (m *mesh) attach(peer int, conn net.Conn) {
	m.mu.Lock()
	_, expected := m.inbox[peer]
	old := m.in[peer]
	if !expected || m.stop.Err() != nil || old != nil && old.used.Load() {
		m.mu.Unlock()
		conn.Close()
		return
	}
	if old != nil {
		old.gone.Store(true) // the peer did not hear in time that it had been let in
		old.conn.Close()
	}
	l := newPeerConn(peer, conn)
	m.in[peer] = l
	m.wg.Go(func() { m.read(l, m.inbox[peer]) })
	m.mu.Unlock()
}

// reacher opens a connection to a rank.
type dialer func(ctx context.Context, to int) (net.Conn, error)

// connect dials all ranks that this one dials. It tries again until ctx is done,
// or until one has been out of reach for limit. One that takes connections
// and is slow to answer is not.
func (m *mesh) connect(ctx context.Context, limit time.Duration, reach dialer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := stepsOf(m.authenticator.size)
	errs := make(chan error, steps)
	for step := range steps {
		m.wg.Go(func() { errs <- m.reach(ctx, m.peer(-1<<step), limit, reach) })
	}
	var all error
	for range steps {
		if err := <-errs; err != nil {
			all = errors.Join(all, err)
			cancel() // the others have had their time
		}
	}
	return all
}

func (m *mesh) reach(ctx context.Context, peer int, limit time.Duration, reach dialer) error {
	last := time.Now() // when it was last known to be there
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		conn, err := reach(ctx, peer)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.stop.Err() != nil {
				conn.Close()
				return context.Cause(m.stop)
			}
			l := newPeerConn(peer, conn)
			m.out[peer] = l
			m.wg.Go(func() { m.read(l, nil) })
			return nil
		}
		if u := new(netconn.UnreachedError); errors.As(err, &u) && u.Answered() {
			last = time.Now()
		} else if time.Since(last) > limit {
			return fmt.Errorf("connecting to rank %d: %w", peer, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connecting to rank %d: %w", peer, errors.Join(context.Cause(ctx), err))
		case <-time.After(wait):
		}
	}
}

// read takes the frames of one connection until it ends. Blobs go to inbox.
func (m *mesh) read(l *peerConn, inbox chan<- *frame) {
	r := bufio.NewReaderSize(l, 4096)
	for {
		f, err := readFrame(r, m.authenticator.size)
		if err == nil && f.kind == blobsFrame && (inbox == nil || f.rank != l.peer) {
			err = fmt.Errorf("blobs of rank %d from rank %d", f.rank, l.peer)
		}
		if err != nil {
			l.conn.Close()
			if !l.gone.Load() {
				m.lost(l.peer, err)
			}
			return
		}
		switch f.kind {
		case blobsFrame:
			select {
			case inbox <- f:
			case <-m.stop.Done():
				return
			}
		case heartbeatFrame:
		default:
			m.spread(f)
		}
	}
}

// lost is what the end of a connection means. Whoever knows more has some time
// to say so: that the peer closed, or how it died.
func (m *mesh) lost(peer int, err error) {
	if m.jobState.hasLeft(peer) {
		return
	}
	select {
	case <-m.stop.Done():
		return
	case <-m.jobState.failed:
		return
	case <-time.After(m.grace):
	}
	switch {
	case m.jobState.hasLeft(peer):
	case m.jobState.hasEnded(peer):
		m.spread(notice(leftFrame, peer, 0, nil))
	case isEnd(err):
		m.fail(peer, "ended without closing its world"+m.on(peer))
	default:
		m.fail(peer, fmt.Sprintf("lost its connection to rank %d%s: %v", m.authenticator.self, m.on(m.authenticator.self),
			err))
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

// spread notes what a notice says, and passes it on when it is news: to all ranks that
// this one dialed, and failures to those that dialed this one, too.
func (m *mesh) spread(f *frame) {
	if m.jobState.take(f) {
		m.tell(f, f.kind == failedFrame)
	}
}

func (m *mesh) fail(rank int, what string) {
	m.spread(notice(failedFrame, rank, 0, told{what, ErrFailed}))
}

// tell sends a notice without waiting, and after all earlier ones.
func (m *mesh) tell(f *frame, everybody bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop.Err() != nil {
		return
	}
	for _, l := range m.conns(everybody) {
		if l.put(f) {
			m.wg.Go(l.flush)
		}
	}
}

// conns returns the connections that this rank dialed, and, if in says so, the
// others. The caller holds mu.
func (m *mesh) conns(in bool) []*peerConn {
	all := slices.Collect(maps.Values(m.out))
	if in {
		all = slices.AppendSeq(all, maps.Values(m.in))
	}
	return all
}

// goodbye tells all peers that this rank closes after done AllGathers. What it
// knows to have gone wrong before, it says first, so that nobody takes its
// leaving for the cause.
func (m *mesh) goodbye(done uint64) {
	failure, broken := m.jobState.troubles()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.conns(true) {
		if failure != nil && failure.rank >= 0 {
			l.put(failure)
		}
		if broken != nil {
			l.put(broken)
		}
		l.put(notice(leftFrame, m.authenticator.self, done, nil))
		l.flush()
	}
}

// close ends all connections. The caller has ended stop.
func (m *mesh) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.conns(true) {
		l.conn.Close()
	}
}
