package tcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// Config describes the connections of one rank and the links over them. It is the same on all ranks, except for Rank,
// Listen and the functions.
type Config struct {
	// Config is how the connections are made, with Size as in Layout; Peers and Use are set here. A connection with
	// a rank that is not in First is made when either of the two first requests a link; First must be such that all
	// ranks learn of faults.
	netconn.Config

	Layout transport.Layout // the links

	// Hosts holds the host of every rank, by any numbers; nil means that each
	// rank is on a host of its own. Ranks of one host are not connected.
	Hosts []int

	// Gone reports whether a rank has ended, as far as the World knows; nil means that it has no such knowledge. It
	// is called for ranks without a connection, and for ranks whose connection may last longer than their host.
	Gone func(rank int) bool

	// Cores are those of the host, if ranks may leave the one that they share with others; nil: they may not.
	Cores []int

	every time.Duration // interval of status frames; 0: statusInterval
}

// Connect makes this rank's connections to other hosts. All ranks call it at about the same time. It calls Exchange as
// netconn.Connect does. An error is one of netconn.Connect, or about the configuration.
func Connect(ctx context.Context, cfg *Config) (*netconn.Mesh, error) {
	cfg.Peers = func(r int) bool { return cfg.Hosts == nil || cfg.Hosts[r] != cfg.Hosts[cfg.Rank] }
	cfg.Use = cfg.Layout.Digest(version)
	mesh, err := netconn.Connect(ctx, cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	return mesh, nil
}

// New makes this rank's endpoint from the connections to other hosts that Connect returned, and from the links within
// its host, which sleep on doorbells. The endpoint owns both then, also after an error.
func New(cfg *Config, local *shm.Endpoint, mesh *netconn.Mesh) (*Endpoint, error) {
	e, err := newEndpoint(cfg, local, mesh)
	if err != nil {
		return nil, errors.Join(err, mesh.Close())
	}
	mesh.Serve(e.net.onConnected)
	return e, nil
}

// take takes the socket out of a connection.
func take(c *netconn.Conn) (socket, error) {
	name := fmt.Sprintf("%v -> %v", c.LocalAddr(), c.RemoteAddr())
	if c.Device() != "" {
		name += " over " + c.Device()
	}
	fd, err := osys.TakeSocket(c.TCP())
	if err != nil {
		return socket{}, err
	}
	k := socket{fd: fd, name: name, wire: plain(fd)}
	if s := c.TLS(); s != nil {
		w := &sealed{Conn: c.Raw(), fd: fd, session: s}
		c.SetInner(w)
		k.wire = w
	}
	return k, nil
}
