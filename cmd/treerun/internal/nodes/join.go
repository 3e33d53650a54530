package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/netconn"
)

// Join goes, as a node that is not 0, to the seed, again and again while nobody
// is there. It returns the connection to node 0 once all nodes are there. The caller
// closes it.
func Join(ctx context.Context, c *Config) (net.Conn, error) {
	session, err := secure(c.Key, c.JobID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	wait := 20 * time.Millisecond
	for told := error(nil); ; {
		conn, err := c.try(ctx, session)
		if err == nil {
			return conn, nil
		}
		final := new(finalError)
		switch {
		case errors.As(err, &final):
			return nil, fmt.Errorf("node 0 at %s: %w", c.Seed, err)
		case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, context.Cause(ctx)
		case ctx.Err() != nil:
			if told == nil {
				told = err
			}
			return nil, fmt.Errorf("node %d could not join node 0 at %s within %v (--start-timeout): %w", c.Node, c.Seed,
				c.Timeout, told)
		case told == nil || err.Error() != told.Error() && says(err, told):
			told = err
			c.Trace("node 0 at %s: %v; trying again", c.Seed, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(wait*3/2, time.Second)
	}
}

// says tells whether an error says as much as the one before: that time was up does not,
// nor, after one about keys, that a later connection was cut off.
func says(err, before error) bool {
	dial, late := new(net.OpError), net.Error(nil)
	nobody := errors.As(err, &dial) && dial.Op == "dial"
	return !(errors.As(err, &late) && late.Timeout()) && (nobody || !errors.Is(before, errKey))
}

// finalError is an answer after which there is no use in trying again.
type finalError struct{ text string }

func (e *finalError) Error() string { return e.text }

// try is one attempt.
func (c *Config) try(ctx context.Context, session *netconn.Session) (net.Conn, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	raw, err := d.DialContext(ctx, "tcp", c.Seed)
	if err != nil {
		return nil, err
	}
	conn, err := session.Dial(ctx, raw, netconn.Hello{From: c.Node})
	if errors.Is(err, netconn.ErrKey) {
		return nil, fmt.Errorf("who listens there: %w", keyError(err))
	}
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.greet(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// greet says hello and waits for the answer, which comes when all nodes are
// there.
func (c *Config) greet(conn net.Conn) error {
	if err := write(conn, c.hello()); err != nil {
		return err
	}
	c.Trace("node 0 is there; waiting for all %d nodes", c.Nodes)
	b, err := read(conn)
	if err != nil {
		return fmt.Errorf("it let us in and then no more: %w (hint: it may have another key or job id, or was ended)", err)
	}
	switch r, ok := b.(*wire.Result); {
	case !ok:
		return errors.New("it does not answer as node 0 does")
	case r.Text != "":
		return &finalError{r.Text}
	}
	return nil
}
