package netconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// AcceptorConfig describes the callers that an Acceptor admits, and its limits.
type AcceptorConfig struct {
	// Prove authenticates the other end of c, which has a deadline. It returns a function that takes over c; the
	// function runs without a deadline and may take a long time. Or it returns an error for which the caller is
	// refused, and then the Acceptor closes c. Prove is called concurrently.
	Prove func(c net.Conn) (enter func(), err error)

	// Refused receives the refused callers, but not those that lost their place to other callers. It is called
	// concurrently, and may be nil.
	Refused func(from net.Addr, err error)

	Log    *slog.Logger  // gets the first failure of a listener, with attributes that identify it; nil: none does
	Wait   time.Duration // limit of one authentication
	Places int           // limit of concurrent authentications, at least 1
}

// Acceptor is a set of listeners that authenticate their callers. If more callers than there are places are being
// authenticated, the oldest connection of the source with the most connections is closed: a caller with the key needs
// about a millisecond, and is therefore rarely the oldest of many silent unauthenticated peers.
type Acceptor struct {
	cfg       AcceptorConfig
	listeners []net.Listener
	stop      context.Context // ends with Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	refused atomic.Int64 // consecutive refused callers, since the last authenticated one

	mu      sync.Mutex
	waiting []net.Conn // not yet authenticated, oldest first
	failed  error      // latest error of a listener
}

// A listener rests after every restAfter consecutive refused callers, for restStep times the number of such rests, and
// restMost at most, until a caller is authenticated. Meanwhile the system queues restQueue connections, so that a
// caller does not wait behind thousands of a flood: further ones are dropped, and their senders wait for a second.
const (
	restAfter = 32
	restStep  = time.Millisecond
	restMost  = 10 * time.Millisecond
	restQueue = 256
	allQueue  = 1 << 30 // the maximum that the system allows
)

// OpenAcceptor starts to accept connections from the listeners, and takes ownership of them.
func OpenAcceptor(cfg AcceptorConfig, listeners ...net.Listener) *Acceptor {
	a := &Acceptor{cfg: cfg, listeners: listeners}
	a.stop, a.cancel = context.WithCancel(context.Background())
	for _, ln := range listeners {
		a.wg.Go(func() { a.serve(ln) })
	}
	return a
}

// Close stops listening, closes the connections that are not authenticated, and returns when all goroutines of the
// Acceptor have ended, including those in AcceptorConfig.Prove and in the function that it returned. Close may be
// called again.
func (a *Acceptor) Close() {
	a.mu.Lock()
	a.cancel()
	for _, ln := range a.listeners {
		ln.Close()
	}
	for _, c := range a.waiting {
		c.Close()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *Acceptor) serve(ln net.Listener) {
	rests := int64(0)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Most likely out of descriptors: close a connection.
			a.mu.Lock()
			if a.failed == nil && a.cfg.Log != nil { // the other ranks see only that a connection has ended
				a.cfg.Log.Warn("treerun: could not accept a connection; later failures are not reported", "error", err,
					"hint", "ulimit -n")
			}
			a.failed = fmt.Errorf("this rank could not accept a connection: %w (hint: ulimit -n)", err)
			a.dropOne()
			a.mu.Unlock()
			a.rest(time.Millisecond)
			continue
		}
		a.queue(conn)
		a.wg.Go(func() { a.admit(conn) })
		n := a.refused.Load() / restAfter
		switch {
		case n > 0 && rests == 0:
			setQueue(ln, restQueue)
		case n == 0 && rests > 0:
			setQueue(ln, allQueue)
		}
		if n > rests {
			a.rest(min(time.Duration(n)*restStep, restMost))
		}
		rests = n
	}
}

// setQueue sets the number of connections that the system queues for a listener.
func setQueue(ln net.Listener, n int) {
	if c, is := ln.(syscall.Conn); is {
		_ = onSocket(c, func(fd int) error { return setBacklog(fd, n) }) // if it fails, callers wait longer
	}
}

// rest waits for d, or until the Acceptor is closed.
func (a *Acceptor) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.stop.Done():
	}
}

// Failed returns the latest error with which a listener could not accept a connection, nil if there is none or the
// Acceptor is nil.
func (a *Acceptor) Failed() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// queue adds a new connection to the list, from which another one may be dropped.
func (a *Acceptor) queue(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) >= a.cfg.Places {
		a.dropOne()
	}
	if a.stop.Err() != nil { // Close has gone through the list before
		conn.Close()
	}
	a.waiting = append(a.waiting, conn)
}

// dropOne closes the oldest connection of the source with the most connections. The caller holds mu.
func (a *Acceptor) dropOne() {
	if len(a.waiting) == 0 {
		return
	}
	from := map[netip.Addr]int{}
	for _, c := range a.waiting {
		from[addrOf(c.RemoteAddr())]++
	}
	oldest := slices.MaxFunc(a.waiting, func(c, d net.Conn) int { // the first of several
		return from[addrOf(c.RemoteAddr())] - from[addrOf(d.RemoteAddr())]
	})
	oldest.Close()
	a.forget(oldest)
}

// forget removes a connection from the list, if it is there. The caller holds mu.
func (a *Acceptor) forget(conn net.Conn) {
	if i := slices.Index(a.waiting, conn); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

// admit authenticates one connection.
func (a *Acceptor) admit(conn net.Conn) {
	conn.SetDeadline(time.Now().Add(a.cfg.Wait))
	enter, err := a.cfg.Prove(conn)
	a.mu.Lock()
	a.forget(conn)
	over := a.stop.Err() != nil
	a.mu.Unlock()
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // fails if the connection was dropped in the meantime
	}
	if err != nil {
		a.refused.Add(1)
		if a.cfg.Refused != nil && !over && !errors.Is(err, net.ErrClosed) {
			a.cfg.Refused(conn.RemoteAddr(), err)
		}
		conn.Close()
		return
	}
	a.refused.Store(0)
	enter()
}

// Refusals logs the first refused caller, and no others. Callers that close the connection before they have proved
// anything do not count: a peer does so when another path was faster. Nor does a caller that this rank dials itself, or
// one that knows the key and wants another rank: an address that several hosts have leads to the wrong one. Refusals
// may be used concurrently.
type Refusals struct {
	Log *slog.Logger // with attributes that identify the listener

	once sync.Once
}

// Refused records a refused caller. It has the form of AcceptorConfig.Refused.
func (s *Refusals) Refused(from net.Addr, err error) {
	if errors.Is(err, errSilent) || errors.Is(err, errNoProof) || errors.Is(err, errCrossing) ||
		errors.Is(err, errMisdirected) {
		return
	}
	s.once.Do(func() {
		s.Log.Warn("treerun: refused a connection that is not from a rank of this job; later ones are not reported",
			"from", from, "error", err)
	})
}

// ErrNoName is the error of a socket whose own address the system does not report: getsockname has failed.
var ErrNoName = errors.New("getsockname: the system does not report the address of a socket")

// PortOf returns the port at which ln listens, or ErrNoName.
func PortOf(ln net.Listener) (uint16, error) {
	if at, is := ln.Addr().(*net.TCPAddr); is {
		return uint16(at.Port), nil
	}
	return 0, ErrNoName
}

// addrOf returns the address of a TCP peer without zone, the zero Addr for others.
func addrOf(at net.Addr) netip.Addr {
	if at, is := at.(*net.TCPAddr); is {
		return at.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
