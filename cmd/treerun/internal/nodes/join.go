//go:build linux

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/netconn"
)

// Join connects a node other than node 0 to the seed, with further attempts until node 0
// answers. It returns the connection to node 0 once all nodes are connected. The caller
// closes it.
func Join(ctx context.Context, c *Config) (net.Conn, error) {
	session, err := newSession(c.Key, c.JobID)
	if err != nil {
		return nil, err
	}
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	defer c.showing(func() string { return "waiting for node 0 at " + c.Seed + ", and the other nodes" })()
	last, retry := error(nil), backoff.Retry{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		conn, err := c.attempt(ctx, parent, session)
		if err == nil {
			return conn, nil
		}
		if errors.As(err, new(finalError)) {
			return nil, fmt.Errorf("node 0 at %s: %w", c.Seed, err)
		}
		if last == nil || ctx.Err() == nil { // otherwise err reports only that time is up
			last = err
			c.Trace("node 0 at %s: %v; trying again", c.Seed, err)
		}
		if retry.Pause(ctx) {
			continue
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("node %d could not join node 0 at %s within %v (--start-timeout): %w", c.Node, c.Seed,
				c.Timeout, last)
		}
		return nil, context.Cause(ctx)
	}
}

// finalError is an answer after which another attempt is useless.
type finalError string

func (e finalError) Error() string { return string(e) }

// answerGrace is the time by which a node that node 0 has accepted exceeds its own limit: the limit of
// node 0 may end a moment later, and node 0 knows which nodes are missing.
const answerGrace = 2 * time.Second

// attempt makes one attempt. It ends with ctx, or, once node 0 has accepted this node, with parent.
func (c *Config) attempt(ctx, parent context.Context, session *netconn.Session) (net.Conn, error) {
	d := net.Dialer{Timeout: handshakeTimeout}
	raw, err := d.DialContext(ctx, "tcp", c.Seed)
	if err != nil {
		return nil, err
	}
	conn, err := session.Dial(ctx, raw, netconn.Hello{From: c.Node})
	if err != nil {
		return nil, keyError(err)
	}
	if limit, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(limit.Add(answerGrace))
	}
	stop := context.AfterFunc(parent, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = c.sendHello(conn)
	if !stop() && err == nil {
		err = parent.Err()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// sendHello sends the hello of this node and waits for the answer, which comes when all nodes are
// connected.
func (c *Config) sendHello(conn net.Conn) error {
	if err := write(conn, &c.NodeHello); err != nil {
		return err
	}
	c.Trace("node 0 has answered; waiting for all %d nodes", c.Nodes)
	f, err := wire.Read(conn)
	if err != nil {
		return fmt.Errorf("it accepted this node and then sent no answer: %w (hint: it may have another key or job id, "+
			"or have ended)", err)
	}
	switch r, ok := f.Body.(*wire.Result); {
	case !ok:
		return errors.New("its answer is not one of node 0")
	case r.Text != "":
		return finalError(r.Text)
	}
	return nil
}

// newSession returns the session with which both sides of a connection authenticate.
func newSession(key []byte, jobID string) (*netconn.Session, error) {
	derived, err := netconn.DeriveKey(key, jobID, "treerun nodes")
	if err != nil {
		return nil, fmt.Errorf("derive the key of the job: %w", err)
	}
	s := netconn.NewSession(derived, nil)
	return s, s.Encrypt()
}

// keyError returns err, with a text for users in place of netconn.ErrKey, the error for a peer without the key.
func keyError(err error) error {
	if errors.Is(err, netconn.ErrKey) {
		return errors.New("it does not have the key of this job: another key file, or another job id")
	}
	return err
}

func write(w io.Writer, b wire.Body) error {
	_, err := w.Write((&wire.Frame{Body: b}).Append(nil))
	return err
}

// sendAnswer notifies a node that the job begins, or of the reason for which it does not, and closes the
// connection in that case. Errors of writing are ignored: a reader learns that a node is gone.
func sendAnswer(conn net.Conn, refused error) {
	r := new(wire.Result)
	if refused != nil {
		r.Text = refused.Error()
		defer conn.Close()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(handshakeTimeout))
	_ = write(conn, r)
	_ = conn.SetWriteDeadline(time.Time{})
}
