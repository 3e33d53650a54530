package collective

import (
	"context"
	"net/netip"
	"time"

	"github.com/treerun/treerun/transport/datagram"
	"github.com/treerun/treerun/transport/peer"
)

// asideDatagrams opens a socket that lives as long as c, which has failed if it
// cannot.
func (c *Comm) asideDatagrams(ctx context.Context, during, purpose string, peers func(rank int) bool) (*datagram.Socket, error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.cancelOnFault(within, cancel)
	s, err := openDatagrams(within, newInner(c, openAside), purpose, peers)
	if err != nil {
		return nil, c.asideUnopened(ctx, during, "opening a socket for UDP", err)
	}
	c.aside.OnClose(s.Close)
	return s, nil
}

// openDatagrams opens a socket between the members of w that are peers. All of w call
// it together.
func openDatagrams(ctx context.Context, w World, purpose string, peers func(rank int) bool) (*datagram.Socket, error) {
	cfg, err := datagramConfig(w, purpose)
	if err == nil {
		cfg.Peers = peers
	} else {
		cfg = datagram.Config{Rank: w.Rank(), Size: w.Size()} // not valid: all are told
	}
	cfg.Exchange = w.AllGather
	s, failed := datagram.Connect(ctx, cfg)
	if failed != nil && err == nil {
		err = failed
	}
	return s, err
}

// datagramConfig says how ranks reach each other over UDP: as over TCP, and on one
// host over the loopback.
func datagramConfig(w World, purpose string) (datagram.Config, error) {
	use := "udp " + purpose
	cfg := datagram.Config{
		Rank: w.Rank(), Size: w.Size(), Key: w.DeriveKey(use), JobID: w.JobID(), Purpose: purpose,
		Timeout: peerTimeout(w),
	}
	if n, ok := w.(Networked); ok {
		cfg.Epoch, cfg.HostOf = n.Epoch(), n.HostName
	}
	var err error
	if oneHost(hostsOf(w)) {
		cfg.Listen = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
		cfg.Ports, err = portRange(w)
		return cfg, err
	}
	net, err := networkConfig(w, purpose)
	cfg.Listen, cfg.Ports = net.Listen, net.Ports
	return cfg, err
}

// peerTimeout is after how long without news a rank is lost. What is not a duration
// is reported where the links are opened.
func peerTimeout(w World) time.Duration {
	if d, err := time.ParseDuration(w.Setting("peer-timeout")); err == nil && d > 0 {
		return d
	}
	return peer.DefaultPeerTimeout
}
