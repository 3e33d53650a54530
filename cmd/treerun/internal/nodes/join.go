package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Join goes, as a node that is not 0, to the seed, again and again while nobody
// is there. It returns the connection to node 0 as two files, like stdin and
// stdout: one to read from and one to write to, once all nodes are there. The
// caller closes them.
func Join(ctx context.Context, c *Config) (in, out *os.File, err error) {
	t, err := secure(c.Key, c.JobID)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	wait := 20 * time.Millisecond
	for told := ""; ; {
		s, err := c.try(ctx, t)
		if err == nil {
			if err := s.open(); err != nil {
				s.close()
				return nil, nil, err
			}
			return s.fromThem, s.toThem, nil
		}
		final := new(finalError)
		switch {
		case errors.As(err, &final):
			return nil, nil, fmt.Errorf("node 0 at %s: %w", c.Seed, err)
		case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, nil, context.Cause(ctx)
		case ctx.Err() != nil:
			if told == "" {
				told = err.Error()
			}
			return nil, nil, fmt.Errorf("node %d could not join node 0 at %s within %v (--start-timeout): %s", c.Node, c.Seed, c.Timeout, told)
		}
		// A reset after words about keys is those words, overtaken by the end of
		// the connection.
		overtaken := errors.Is(err, syscall.ECONNRESET) && strings.Contains(told, errStranger.Error())
		if late := new(net.Error); told == "" || err.Error() != told && !overtaken && !(errors.As(err, late) && (*late).Timeout()) {
			told = err.Error()
			c.Trace("node 0 at %s: %v; trying again", c.Seed, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(wait*3/2, time.Second)
	}
}

// finalError is an answer after which there is no use in trying again.
type finalError struct{ text string }

func (e *finalError) Error() string { return e.text }

// try is one attempt.
func (c *Config) try(ctx context.Context, t *tls.Config) (*stream, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	conn, err := d.DialContext(ctx, "tcp", c.Seed)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	s, err := c.greet(ctx, tls.Client(conn, t), conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return s, nil
}

// greet says hello and waits for the answer, which comes when all nodes are
// there.
func (c *Config) greet(ctx context.Context, t *tls.Conn, conn net.Conn) (*stream, error) {
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := t.HandshakeContext(ctx); err != nil {
		if errors.Is(err, errStranger) {
			err = fmt.Errorf("who listens there: %w", err)
		}
		return nil, err
	}
	if err := writeRecord(t, c.hello()); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if ctx.Err() != nil { // else it ends the wait by a deadline of its own
		return nil, ctx.Err()
	}
	c.Trace("node 0 is there; waiting for all %d nodes", c.Nodes)
	var a answer
	if err := readRecord(t, &a); err != nil {
		return nil, fmt.Errorf("it let us in and then no more: %w (hint: it may have another key or job id, or was ended)", err)
	}
	if a.Refused != "" {
		return nil, &finalError{a.Refused}
	}
	s := newStream(t, conn)
	close(s.seen) // what comes first is the launcher's
	return s, nil
}
