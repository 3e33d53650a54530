// Package exchange connects the ranks of a job with each other. It carries the blobs of all ranks to all ranks
// (AllGather), and news of failures from rank to rank. It authenticates no peers and opens no connections: the caller
// passes it connections to ranks that have proved themselves.
package exchange

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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/netconn"
)

// Config describes a rank.
type Config struct {
	Rank, Size int

	// Grace is how long the end of a connection waits for its explanation: the launcher's report of how the process
	// ended, or a notice on another connection.
	Grace time.Duration

	// Launched is true where a launcher reports how processes end.
	Launched bool

	// On returns " on host c", for messages about a rank; "" where all ranks are on one host.
	On func(rank int) string
}

// Mesh holds a rank's connections to other ranks, and its knowledge of the job. Rank r dials r-1, r-2, r-4, ... modulo
// the number of ranks, and is dialed by r+1, r+2, r+4, ...: the pattern of AllGather. Blobs flow from the side that
// dialed.
//
// News flows in that direction, too: a rank passes on news over the connections that it dialed. It also sends its own
// Close to the ranks that dialed it, which is safe, as they then have nothing on the way that it waits for.
//
// All methods may be called concurrently.
type Mesh struct {
	*state
	cfg   Config
	inbox map[int]chan *frame // by peer: frames of blobs

	stop   context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	gatherMu sync.Mutex // held by AllGather
	gathered atomic.Uint64

	mu        sync.Mutex
	in        map[int]*peerConn
	out       map[int]*peerConn
	interval  time.Duration       // of heartbeats
	elsewhere func(rank int) bool // nil: there are no heartbeats
	complete  atomic.Bool
}

// New makes a mesh without connections. The caller closes it.
func New(cfg Config) *Mesh {
	m := &Mesh{
		state: newState(), cfg: cfg, inbox: map[int]chan *frame{}, in: map[int]*peerConn{}, out: map[int]*peerConn{},
	}
	m.stop, m.cancel = context.WithCancel(context.Background())
	for step := range stepsOf(cfg.Size) {
		// A peer can be one AllGather ahead, not more.
		m.inbox[m.peer(1<<step)] = make(chan *frame, 2)
	}
	return m
}

// peer returns the rank at the given distance after this one, modulo the size.
func (m *Mesh) peer(distance int) int {
	return ((m.cfg.Rank+distance)%m.cfg.Size + m.cfg.Size) % m.cfg.Size
}

// outlet returns the connection to the rank at the given distance.
func (m *Mesh) outlet(distance int) *peerConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out[m.peer(distance)]
}

// Attach takes over a connection that peer dialed.
func (m *Mesh) Attach(peer int, conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inbox, old := m.inbox[peer], m.in[peer]
	if inbox == nil || m.stop.Err() != nil || old != nil && old.used.Load() {
		conn.Close()
		return
	}
	if old != nil {
		old.replaced.Store(true) // the peer has not learned in time that it was admitted
		old.conn.Close()
	}
	m.in[peer] = m.begin(peer, conn, inbox)
}

// begin reads from a connection; blobs go to inbox. The caller holds mu.
func (m *Mesh) begin(peer int, conn net.Conn, inbox chan<- *frame) *peerConn {
	l := &peerConn{peer: peer, conn: conn, ended: make(chan struct{})}
	m.watch(l)
	m.wg.Go(func() { m.read(l, inbox) })
	return l
}

// Dialer opens a connection to a rank.
type Dialer func(ctx context.Context, to int) (net.Conn, error)

// Connect dials all ranks that this one dials. It tries again until ctx is done, or until one has been unreachable for
// limit. A rank that accepts connections and is slow to answer is not unreachable.
func (m *Mesh) Connect(ctx context.Context, limit time.Duration, dial Dialer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := stepsOf(m.cfg.Size)
	errs := make(chan error, steps)
	for step := range steps {
		m.wg.Go(func() { errs <- m.reach(ctx, m.peer(-1<<step), limit, dial) })
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

func (m *Mesh) reach(ctx context.Context, peer int, limit time.Duration, dial Dialer) error {
	last := time.Now() // when it was last known to be there
	for retry := (backoff.Retry{Min: time.Millisecond, Max: 50 * time.Millisecond}); ; {
		conn, err := dial(ctx, peer)
		if err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.stop.Err() != nil {
				conn.Close()
				return context.Cause(m.stop)
			}
			m.out[peer] = m.begin(peer, conn, nil)
			return nil
		}
		if u := netconn.Unreached(err); u != nil && u.Answered() {
			last = time.Now()
		} else if time.Since(last) > limit {
			return fmt.Errorf("connecting to rank %d: %w", peer, err)
		}
		if !retry.Pause(ctx) {
			return fmt.Errorf("connecting to rank %d: %w", peer, errors.Join(context.Cause(ctx), err))
		}
	}
}

// read takes the frames of a connection until it ends.
func (m *Mesh) read(l *peerConn, inbox chan<- *frame) {
	defer close(l.ended)
	r := bufio.NewReaderSize(l, 4096)
	for {
		f, err := readFrame(r, m.cfg.Size)
		if err == nil && f.kind == blobsFrame && (inbox == nil || f.rank != l.peer) {
			err = fmt.Errorf("blobs of rank %d from rank %d", f.rank, l.peer)
		}
		if err != nil {
			err = netconn.Stalled(netconn.Jumbo(l.conn), err)
			l.conn.Close()
			if !l.replaced.Load() {
				m.onConnEnd(l.peer, err)
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
			m.broadcast(f)
		}
	}
}

// onConnEnd handles the end of a connection. Processes that know more have a grace period to send the reason: that the
// peer closed, or how it died.
func (m *Mesh) onConnEnd(peer int, err error) {
	if m.HasLeft(peer) {
		return
	}
	select {
	case <-m.stop.Done():
		return
	case <-time.After(m.cfg.Grace):
	}
	switch {
	case m.HasLeft(peer):
	case m.hasEnded(peer):
		m.broadcast(notice(leftFrame, peer, 0, nil))
	default:
		m.reportFailed(peer, m.describeEnd(peer, err))
	}
}

// describeEnd describes the state of a peer whose connection has ended with err. The end of a process causes that,
// which a launcher would have reported, and between hosts so does the network.
func (m *Mesh) describeEnd(peer int, err error) string {
	ended := "ended without closing its world" + m.cfg.On(peer)
	broke := fmt.Sprintf("lost its connection to rank %d%s: %v", m.cfg.Rank, m.cfg.On(m.cfg.Rank), err)
	switch {
	case !isEnd(err):
		return broke
	case m.cfg.Launched:
		return broke + " (the launcher knows of no process that has ended)"
	case errors.Is(err, syscall.ECONNRESET) && m.cfg.On(peer) != "":
		return ended + ", or " + broke
	}
	return ended
}

// isEnd reports whether err is the error of a connection whose peer process has ended, also after its reader has closed
// this side.
func isEnd(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

// reportFailed notes that a rank has failed, and notifies the others.
func (m *Mesh) reportFailed(rank int, what string) {
	m.broadcast(notice(failedFrame, rank, 0, reported{what, ErrFailed}))
}

// AbortGather notifies all ranks that AllGather number and later ones cannot complete, because of rank.
func (m *Mesh) AbortGather(rank int, number uint64, why error) {
	kind := brokenFrame
	if errors.Is(why, ErrStalled) {
		kind = stalledFrame
	}
	m.broadcast(notice(kind, rank, number, why))
}

// SendPairs sends all ranks the list of the peers that this one cannot connect to, a netconn.Report.
func (m *Mesh) SendPairs(report []byte) {
	m.broadcast(&frame{kind: pairsFrame, rank: m.cfg.Rank, text: string(report)})
}

// broadcast records a notice. News is passed on, without waiting and after all earlier notices, to the ranks that this
// one dialed; failures, and pairs that cannot connect, also go to the ranks that dialed this one.
func (m *Mesh) broadcast(f *frame) {
	if !m.record(f) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop.Err() != nil {
		return
	}
	for _, l := range m.conns(f.kind == failedFrame || f.kind == pairsFrame) {
		if l.enqueue(f) {
			m.wg.Go(l.flush)
		}
	}
}

// conns returns the connections that this rank dialed, and the others, too, if in is true. The caller holds mu.
func (m *Mesh) conns(in bool) []*peerConn {
	all := slices.Collect(maps.Values(m.out))
	if in {
		all = slices.AppendSeq(all, maps.Values(m.in))
	}
	return all
}

// SendClosed notifies all peers that this rank closes. Before that it sends the failures that it knows of, so that no
// rank takes its leaving for the cause.
func (m *Mesh) SendClosed() {
	m.gatherMu.Lock() // running operations have been canceled
	defer m.gatherMu.Unlock()
	failure, broken := m.firstNotices()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.conns(true) {
		if failure != nil && failure.rank >= 0 {
			l.enqueue(failure)
		}
		if broken != nil {
			l.enqueue(broken)
		}
		l.enqueue(notice(leftFrame, m.cfg.Rank, m.gathered.Load(), nil))
		l.flush()
	}
}

// Close ends all connections, and returns when all goroutines of the mesh have ended.
func (m *Mesh) Close() {
	m.cancel()
	m.mu.Lock()
	for _, l := range m.conns(true) {
		l.conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
}
