package netconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	stagger       = 10 * time.Millisecond // between the first attempts of two paths
	answerTimeout = 5 * time.Second       // for the answer to a hello
	leaveTimeout  = time.Second           // for that, on a path that has lost
	sealTimeout   = 20 * time.Second      // for TLS and the welcome
	stubborn      = time.Second           // for which a path is tried that is refused
	firstPause    = 10 * time.Millisecond
	longestPause  = 500 * time.Millisecond // between two attempts on a path
)

// errLost is the end of an attempt on a path that was not the fastest.
var errLost = errors.New("another path was faster")

// claim lets one of several paths to a peer win: who gets true has it, until
// free.
type claim struct{ taken atomic.Bool }

func (c *claim) get() bool { return c.taken.CompareAndSwap(false, true) }
func (c *claim) free()     { c.taken.Store(false) }

// reach connects to a peer: by the fastest path, and then by it for the other
// streams. It returns the connections, or what is wrong with each path. Paths
// that have lost take their leave in m.wg.
func (m *meeting) reach(ctx context.Context, peer int) ([]*Conn, *failedPair) {
	there := &m.offers[peer]
	ways := paths(m.mine, there.places, there.host == m.offers[m.cfg.Rank].host)
	if len(ways) == 0 {
		return nil, &failedPair{from: m.cfg.Rank, to: peer, tries: []try{{none, none, m.noWay(peer)}}}
	}
	type result struct {
		way  int
		conn *Conn
		err  error
	}
	results := make(chan result, len(ways))
	racing, end := context.WithCancel(ctx)
	defer end()
	var first claim
	for i, w := range ways {
		m.wg.Go(func() {
			pause(racing, time.Duration(i)*stagger)
			c, err := m.persist(racing, w, peer, 0, &first)
			results <- result{i, c, err}
		})
	}
	pair := &failedPair{from: m.cfg.Rank, to: peer, tries: make([]try, len(ways))}
	for range ways {
		r := <-results
		if r.conn != nil {
			end()
			return m.more(ctx, ways[r.way], r.conn)
		}
		w := ways[r.way]
		pair.tries[r.way] = try{w.own, w.to, reasonOf(r.err)}
	}
	return nil, pair
}

// more makes the streams behind the first, on the path that won.
func (m *meeting) more(ctx context.Context, w path, first *Conn) ([]*Conn, *failedPair) {
	type result struct {
		conn *Conn
		err  error
	}
	results := make(chan result, m.cfg.Streams)
	results <- result{first, nil}
	for stream := 1; stream < m.cfg.Streams; stream++ {
		m.wg.Go(func() {
			c, err := m.persist(ctx, w, first.peer, stream, &claim{})
			results <- result{c, err}
		})
	}
	all := make([]*Conn, m.cfg.Streams)
	var failed *failedPair
	for range all {
		r := <-results
		if r.err != nil {
			failed = &failedPair{from: m.cfg.Rank, to: first.peer, tries: []try{{w.own, w.to, reasonOf(r.err)}}}
			continue
		}
		all[r.conn.stream] = r.conn
	}
	if failed == nil {
		return all, nil
	}
	for _, c := range all {
		if c != nil {
			c.tcp.Close()
		}
	}
	return nil, failed
}

// persist tries a path again and again, until it is connected, another has won
// and ctx has ended, or there is no hope. Its error is the most telling one.
func (m *meeting) persist(ctx context.Context, w path, peer, stream int, first *claim) (*Conn, error) {
	begin := time.Now()
	err := errNotTried
	for wait := firstPause; ctx.Err() == nil; wait = min(2*wait, longestPause) {
		c, now := m.connect(ctx, w, peer, stream, first)
		if now == nil {
			return c, nil
		}
		// That time is up says less than what happened before.
		if errors.Is(err, errNotTried) || ctx.Err() == nil && !errors.Is(now, errLost) {
			err = now
		}
		if errors.Is(now, ErrKey) || definite(now) && time.Since(begin) > stubborn {
			break
		}
		pause(ctx, wait)
	}
	if m.stop.Err() != nil {
		err = fmt.Errorf("%w: %w", errGivenUp, context.Cause(m.stop))
	}
	return nil, err
}

// connect tries a path once. When ctx ends, as it does when another path has
// won, it waits a little longer for the answer, to take its leave.
func (m *meeting) connect(ctx context.Context, w path, peer, stream int, first *claim) (*Conn, error) {
	tcp, err := m.dial(ctx, w, peer)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: tcp, tcp: tcp, peer: peer, stream: stream, device: w.from.device}
	soft := context.AfterFunc(ctx, func() { tcp.SetDeadline(time.Now().Add(leaveTimeout)) })
	var t *transcript
	err = guarded(m.stop, c, answerTimeout, func(context.Context) (err error) {
		t, err = m.session.ask(tcp, m.session.hello(m.cfg.Rank, peer, stream))
		return err
	})
	running := soft()
	if err == nil && (!running || !first.get()) {
		_ = t.send(tcp, "leave")
		err = errLost
	}
	if err == nil {
		if err = m.dialed(c, t); err != nil {
			first.free()
		}
	}
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return c, nil
}

// dialed is the dialing side's part from the verdict on.
func (m *meeting) dialed(c *Conn, t *transcript) error {
	return guarded(m.stop, c, sealTimeout, func(ctx context.Context) error {
		if err := t.send(c.tcp, "take"); err != nil {
			return fmt.Errorf("sending the proof: %w", err)
		}
		bound, err := m.seal(ctx, c, t, true)
		if err != nil {
			return err
		}
		return t.expect(c, "welcome", bound...)
	})
}

// dial makes the TCP connection.
func (m *meeting) dial(ctx context.Context, w path, peer int) (*net.TCPConn, error) {
	own, to := zoned(w.from.addr, w.from.device), netip.AddrPortFrom(zoned(w.at.addr, w.from.device), w.at.port)
	if m.cfg.Via != nil {
		to = m.cfg.Via(peer, to)
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own, 0)), KeepAlive: -1}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	tcp := conn.(*net.TCPConn)
	if err = SetPeerTimeout(tcp, m.cfg.PeerTimeout); err != nil {
		tcp.Close()
		return nil, err
	}
	return tcp, nil
}

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// errNotTried is why a path failed for which there was no time.
var errNotTried = errors.New("not tried, there was no time left")

// errGivenUp is why a path failed when the caller wanted no more.
var errGivenUp = errors.New("given up")

// errNoConnection is an error of TCP, before any handshake.
var errNoConnection = errors.New("no connection")

// definite errors will hardly go away: the host or the network says no.
func definite(err error) bool {
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

// reasonOf returns what went wrong on a path, without the addresses, which
// stand beside it.
func reasonOf(err error) string {
	var errno syscall.Errno
	var slow net.Error
	switch {
	case errors.Is(err, ErrKey), errors.Is(err, errNotTried), errors.Is(err, errGivenUp):
	case errors.As(err, &errno) && !errors.Is(err, errHungUp):
		return errno.Error()
	case errors.As(err, &slow) && slow.Timeout(): // context.DeadlineExceeded is one, too
		if errors.Is(err, errNoConnection) {
			return "timeout, no answer at all"
		}
		return "it accepts connections but does not answer"
	}
	return err.Error()
}
