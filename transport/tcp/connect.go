package tcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/shm"
)

// Config says who connects to whom, and over which links. But for Rank, Listen
// and functions it is the same on all ranks.
type Config struct {
	// Config is how the connections are made, with Size as in Layout; Use is set here. Where
	// Peers is nil, a rank has connections with those on other hosts with which
	// it has a link.
	netconn.Config

	// First says with which of these ranks the connections are made at once; the others are made when one of the two
	// first asks for a link. Symmetric, and such that all ranks hear of each other's faults. Nil: with all.
	First func(rank int) bool

	// Layout has the links. Those between ranks without a connection are not
	// there.
	Layout transport.Layout

	// Hosts holds the host of every rank, by any numbers; nil means that each
	// rank is on a host of its own. Ranks of one host are not connected.
	Hosts []int

	member func(r int) bool // whether a rank has connections; nil: all have
}

// Connect makes this rank's connections to other hosts. All ranks call it at about the same
// time. It calls Exchange as netconn.Connect does, also on ranks without a link. An error
// is one of netconn.Connect, or about the configuration.
func Connect(ctx context.Context, cfg *Config) (*netconn.Mesh, error) {
	if err := cfg.fill(); err != nil {
		return nil, fmt.Errorf("tcp: rank %d: %w", cfg.Rank, err)
	}
	if cfg.Peers == nil {
		cfg.Peers, cfg.member = cfg.linked()
	}
	if linked := cfg.Peers; cfg.First != nil {
		cfg.Peers = func(r int) bool { return linked(r) && cfg.First(r) }
		cfg.Later = linked
	}
	cfg.Use = cfg.Layout.Digest(version)
	mesh, err := netconn.Connect(ctx, cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	return mesh, nil
}

// New makes this rank's endpoint of its links to other hosts, over the connections of
// Connect, and of those within its host, which sleep on doorbells. Both are then its own,
// also after an error.
func New(cfg *Config, local *shm.Endpoint, mesh *netconn.Mesh) (*Endpoint, error) {
	e, err := newEndpoint(setup{
		rank: cfg.Rank, layout: cfg.Layout, hosts: cfg.Hosts, host: cfg.HostOf, member: cfg.member, late: cfg.Later,
		mesh: mesh,
	}, local)
	if err != nil {
		return nil, errors.Join(err, mesh.Close())
	}
	for _, r := range mesh.Peers() {
		e.opened(r, mesh.Conn(r), nil)
	}
	mesh.Serve(e.opened)
	return e, nil
}

// fill checks cfg and puts in defaults.
func (cfg *Config) fill() error {
	switch {
	case cfg.Size != cfg.Layout.Size:
		return fmt.Errorf("%d ranks with a layout of %d", cfg.Size, cfg.Layout.Size)
	case cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return fmt.Errorf("rank %d of %d", cfg.Rank, cfg.Size)
	case cfg.Hosts != nil && len(cfg.Hosts) != cfg.Size:
		return fmt.Errorf("hosts of %d ranks, there are %d", len(cfg.Hosts), cfg.Size)
	}
	return cfg.Layout.Validate()
}

// linked says which ranks have a link between hosts with this one, and which have any.
func (cfg *Config) linked() (peer, member func(r int) bool) {
	peers, members := make([]bool, cfg.Size), make([]bool, cfg.Size)
	link := func(a, b int) {
		if cfg.Hosts != nil && cfg.Hosts[a] == cfg.Hosts[b] {
			return
		}
		members[a], members[b] = true, true
		if a == cfg.Rank || b == cfg.Rank {
			peers[a], peers[b] = true, true
		}
	}
	for _, k := range cfg.Layout.Links {
		link(k.Src, k.Dst)
	}
	for r := 0; cfg.Layout.Links == nil && r < cfg.Size; r++ {
		for q := range r {
			link(q, r)
		}
	}
	return func(r int) bool { return peers[r] }, func(r int) bool { return members[r] }
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
	k := socket{fd: fd, name: name}
	if s := c.TLS(); s != nil {
		w := newSealed(fd, s)
		c.SetInner(w)
		k.wire = w
	}
	return k, nil
}
