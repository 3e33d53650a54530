package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/backoff"
)

const (
	stagger         = 10 * time.Millisecond  // between the first attempts of two paths
	anyStagger      = 25 * time.Millisecond  // of DialAny
	maxStagger      = 400 * time.Millisecond // for first attempts: between those of the first and the last path
	answerTimeout   = 5 * time.Second        // for the answer to a hello
	sealTimeout     = 20 * time.Second       // for TLS and the welcome
	retryRefusedFor = time.Second            // time for which a path that is refused is tried again
	firstPause      = 10 * time.Millisecond
	maxPause        = 500 * time.Millisecond // between two attempts on a path
)

// errLost is the error of an attempt on a path that was not the fastest.
var errLost = errors.New("another path was faster")

// race tries n paths, each a little after the one before, or at once if all before it have failed. It returns the first
// connection that works, and the number of its path, or the errors of all paths. The ctx of the other paths then ends.
func race(ctx context.Context, n int, stagger time.Duration,
	try func(ctx context.Context, path int, first *atomic.Bool) (*Conn, error)) (*Conn, int, []error) {
	type result struct {
		path int
		conn *Conn
		err  error
	}
	results := make(chan result, n)
	racing, end := context.WithCancel(ctx)
	var tries sync.WaitGroup
	defer tries.Wait()
	defer end()
	var first atomic.Bool // a path has won, or is about to
	errs := make([]error, n)
	stagger = min(stagger, maxStagger/time.Duration(max(n, 1)))
	for next, failed := 0, 0; failed < n; {
		var wait <-chan time.Time
		if next < n {
			i := next
			next++
			tries.Go(func() {
				c, err := try(racing, i, &first)
				results <- result{i, c, err}
			})
			wait = time.After(stagger)
		}
		select {
		case r := <-results:
			if r.conn != nil {
				return r.conn, r.path, nil
			}
			errs[r.path] = r.err
			failed++
		case <-wait:
		}
	}
	return nil, 0, errs
}

// reach connects to a peer by the fastest path. It returns the connection, or the failure of each path.
func (m *Mesh) reach(ctx context.Context, peer int) (*Conn, []Try) {
	there := &m.offers[peer]
	ways := paths(m.mine, there.Places, there.Host == m.offers[m.cfg.Rank].Host)
	if len(ways) == 0 {
		return nil, []Try{{Reason: fmt.Sprintf("no address of one can be reached from one of the other (%s; %s)",
			placeList(m.mine), placeList(there.Places))}}
	}
	c, won, errs := race(ctx, len(ways), stagger, func(ctx context.Context, i int, first *atomic.Bool) (*Conn, error) {
		return m.retryPath(ctx, ways[i], peer, first)
	})
	if c != nil {
		m.logConnected(ctx, ways[won], c)
		return c, nil
	}
	var failed []Try
	for i, w := range ways {
		failed = append(failed, Try{w.from.host(), w.at.String(), reasonOf(errs[i])})
	}
	return nil, failed
}

// retryPath tries a path repeatedly, until it is connected, another path has won and ctx has ended, or success has
// become unlikely. It returns the most specific error.
func (m *Mesh) retryPath(ctx context.Context, w path, peer int, first *atomic.Bool) (*Conn, error) {
	begin := time.Now()
	err := errNotTried
	for retry := (backoff.Retry{Min: firstPause, Max: maxPause}); ctx.Err() == nil; retry.Pause(ctx) {
		c, now := m.connect(ctx, w, peer, first)
		if now == nil {
			return c, nil
		}
		// A timeout is less specific than the error before it.
		if errors.Is(err, errNotTried) || ctx.Err() == nil && !errors.Is(now, errLost) {
			err = now
		}
		if errors.Is(now, ErrKey) || isPermanent(now) && time.Since(begin) > retryRefusedFor {
			break
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errTimeUp) {
		err = fmt.Errorf("%w: %w", errGivenUp, cause)
	}
	return nil, err
}

// connect tries a path once.
func (m *Mesh) connect(ctx context.Context, w path, peer int, first *atomic.Bool) (*Conn, error) {
	to := netip.AddrPortFrom(zoned(w.at.Addr, w.from.Device), w.at.Port)
	if m.cfg.Via != nil {
		to = m.cfg.Via(peer, to)
	}
	raw, err := dialTCP(ctx, zoned(w.from.Addr, w.from.Device), to)
	if err != nil {
		return nil, err
	}
	if err = SetPeerTimeout(raw.(*net.TCPConn), m.cfg.PeerTimeout); err != nil {
		raw.Close()
		return nil, err
	}
	c, err := m.session.dial(ctx, raw, Hello{From: m.cfg.Rank, To: peer}, first)
	if err == nil {
		c.device = w.from.Device
	}
	return c, err
}

// dialTCP makes a connection from the given address of this host, if it is valid.
func dialTCP(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return conn, nil
}

// UnreachedError is the error if no address of a process admitted this one.
type UnreachedError struct {
	Attempts []Attempted // none if there was no address
}

// Attempted is an address that did not admit this process, and the error.
type Attempted struct {
	At  netip.AddrPort
	Err error
}

// Reason returns a short form of the error.
func (a Attempted) Reason() string { return reasonOf(a.Err) }

// Error returns the list of addresses with their reasons.
func (u *UnreachedError) Error() string {
	var all []string
	for _, a := range u.Attempts {
		all = append(all, fmt.Sprintf("%s: %s", a.At, a.Reason()))
	}
	if len(all) == 0 {
		return "no address is known that this host does not have, too"
	}
	return strings.Join(all, ", ")
}

// Unwrap returns the errors of all addresses.
func (u *UnreachedError) Unwrap() []error {
	var all []error
	for _, a := range u.Attempts {
		all = append(all, a.Err)
	}
	return all
}

// Unreached returns the UnreachedError that err is or wraps, nil if there is none.
func Unreached(err error) (u *UnreachedError) {
	errors.As(err, &u)
	return u
}

// AllFailedWith reports whether there are addresses, and each failed with target.
func (u *UnreachedError) AllFailedWith(target error) bool {
	other := func(a Attempted) bool { return !errors.Is(a.Err, target) }
	return len(u.Attempts) > 0 && !slices.ContainsFunc(u.Attempts, other)
}

// Answered reports whether some process accepted a connection: if it is the wanted process, it is slow, and not
// unreachable.
func (u *UnreachedError) Answered() bool {
	return slices.ContainsFunc(u.Attempts, func(a Attempted) bool { return !errors.Is(a.Err, errNoConnection) })
}

// DialAny connects to a process at one of its addresses over TCP: each is tried once, and the fastest is kept. The
// error is an *UnreachedError.
func (s *Session) DialAny(ctx context.Context, addrs []netip.AddrPort, h Hello) (*Conn, error) {
	c, _, errs := race(ctx, len(addrs), anyStagger, func(ctx context.Context, i int, first *atomic.Bool) (*Conn, error) {
		raw, err := dialTCP(ctx, netip.Addr{}, addrs[i])
		if err != nil {
			return nil, err
		}
		return s.dial(ctx, raw, h, first)
	})
	if c != nil {
		return c, nil
	}
	u := &UnreachedError{}
	for i, err := range errs {
		if !errors.Is(err, errLost) {
			u.Attempts = append(u.Attempts, Attempted{addrs[i], err})
		}
	}
	return nil, u
}

// errNotTried is the error of a path for which there was no time.
var errNotTried = errors.New("not tried, there was no time left")

// errTimeUp is the error of attempts that have taken too long.
var errTimeUp = errors.New("time is up")

// errGivenUp is the error of a path whose attempts the caller ended.
var errGivenUp = errors.New("given up")

// errNoConnection is an error of TCP, before any handshake.
var errNoConnection = errors.New("no connection")

// isPermanent reports whether err is unlikely to go away: the host or the network refuses the connection.
func isPermanent(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EMFILE, syscall.ENFILE, syscall.EADDRINUSE:
		return false
	}
	return true
}

// reasonOf returns the cause of a path's failure, without the addresses, which the caller prints next to it.
func reasonOf(err error) string {
	var errno syscall.Errno
	var slow net.Error
	switch {
	case errors.Is(err, ErrKey), errors.Is(err, errNotTried), errors.Is(err, errGivenUp),
		strings.Contains(err.Error(), TooLarge):
	case errors.As(err, &errno) && !errors.Is(err, errHungUp):
		return errno.Error()
	case errors.As(err, &slow) && slow.Timeout(), errors.Is(err, context.Canceled): // includes context.DeadlineExceeded
		if errors.Is(err, errNoConnection) {
			return "timeout, no answer at all"
		}
		return "it accepts connections but does not answer"
	}
	return err.Error()
}
