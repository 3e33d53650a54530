package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// dialTimeout is how long one attempt to reach a rank at one address may
	// take, with the handshake.
	dialTimeout = 5 * time.Second

	// headStart is what an address has over the next one.
	headStart = 25 * time.Millisecond
)

// attempt is an address that did not let this rank in, and why.
type attempt struct {
	at  netip.AddrPort
	err error
}

// String is the address and why.
func (a attempt) String() string { return fmt.Sprintf("%s: %s", a.at, plain(a.err)) }

// unreachable is the error when no address of a rank let this one in.
type unreachable struct{ attempts []attempt }

// Error lists the addresses.
func (u *unreachable) Error() string {
	var all []string
	for _, a := range u.attempts {
		all = append(all, a.String())
	}
	if len(all) == 0 {
		return "no address is known"
	}
	return strings.Join(all, ", ")
}

// Unwrap returns the errors of all addresses.
func (u *unreachable) Unwrap() []error {
	var all []error
	for _, a := range u.attempts {
		all = append(all, a.err)
	}
	return all
}

// allSay says whether there are addresses, and each gave the error target.
func (u *unreachable) allSay(target error) bool {
	for _, a := range u.attempts {
		if !errors.Is(a.err, target) {
			return false
		}
	}
	return len(u.attempts) > 0
}

// plain says in a few words why an address could not be reached.
func plain(err error) string {
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return no.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return err.Error()
}

// dial connects to rank to at one of its addresses, and lets both sides prove
// themselves. The addresses are tried one after the other with a small delay,
// the next one at once when one fails, and all at the same time in the end; the
// first at which the rank proves itself is kept. The error is *unreachable.
func dial(ctx context.Context, g *gate, addrs []netip.AddrPort, to int, ch channel) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, &unreachable{}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	type result struct {
		conn net.Conn
		attempt
	}
	results := make(chan result, len(addrs))
	var taken atomic.Bool // by the attempt that is kept
	var failed []attempt
	next := 0
	for {
		var wait <-chan time.Time
		if next < len(addrs) {
			at := addrs[next]
			next++
			go func() {
				conn, err := dialOne(ctx, g, at, to, ch, &taken)
				results <- result{conn, attempt{at, err}}
			}()
			wait = time.After(headStart)
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r.conn, nil // the others see that it is taken, or that ctx has ended
			}
			failed = append(failed, r.attempt)
			if len(failed) == len(addrs) {
				return nil, &unreachable{failed}
			}
		case <-wait:
		}
	}
}

// answered is what went wrong after somebody had taken the connection: if that
// is the rank, it is slow, and not out of reach.
type answered struct{ error }

// Unwrap returns what went wrong.
func (a answered) Unwrap() error { return a.error }

// errBeaten is the end of an attempt when another one was quicker.
var errBeaten = errors.New("another address was quicker")

// dialOne is one attempt. It takes, or gives up when another one has.
func dialOne(ctx context.Context, g *gate, at netip.AddrPort, to int, ch channel, taken *atomic.Bool) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	unblock := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	if err = g.dial(conn, to, ch, func() bool { return taken.CompareAndSwap(false, true) }); err != nil {
		err = answered{err}
	}
	if !unblock() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
