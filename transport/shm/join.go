package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport/internal/osys"
)

const (
	// joinDeadline bounds one attempt of a member.
	joinDeadline = 5 * time.Second
	// joinAttempts is how often a member tries: a leader that was held up
	// beyond its limit drops the connection of a member like that of any other process.
	joinAttempts = 4
	busyPause    = 2 * time.Millisecond
)

// join connects to the leader, proves itself, and maps the segment.
func (c *connecting) join(ctx context.Context, address string) error {
	var err error
	for range joinAttempts {
		if err = c.attempt(ctx, address); err == nil || errors.Is(err, errAuth) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("joining rank %d at %s: %w", c.cfg.Layout.Member(leader), address, err)
	}
	if err = osys.CheckSealed(c.fd, c.m.Total); err != nil {
		return err
	}
	c.mem, err = osys.Map(c.fd, 0, c.m.Bytes)
	return err
}

// attempt makes one connection and gets the descriptor over it.
func (c *connecting) attempt(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, joinDeadline)
	defer cancel()
	conn, err := dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.fd, err = c.enter(ctx, conn); err != nil {
		return errors.Join(err, ctx.Err())
	}
	return nil
}

// enter goes through the acceptor of the leader and returns the descriptor, or -1.
func (c *connecting) enter(ctx context.Context, conn *net.UnixConn) (fd int, err error) {
	if err := osys.CheckSameUser(conn); err != nil {
		return -1, err
	}
	h := netconn.Hello{From: c.cfg.Rank, To: c.cfg.Layout.Member(leader)}
	if _, err = c.session.Dial(ctx, conn, h); errors.Is(err, netconn.ErrKey) {
		err = errAuth
	}
	if err != nil {
		return -1, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	fd, err = receiveGrant(conn)
	if !stop() && err == nil {
		err = errors.Join(ctx.Err(), osys.CloseFD(fd))
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// dial connects, and waits while the leader's backlog is full.
func dial(ctx context.Context, address string) (*net.UnixConn, error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", address)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !osys.Busy(err) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(busyPause):
		}
	}
}
