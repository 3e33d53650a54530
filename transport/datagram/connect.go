package datagram

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/treerun/treerun/transport/ports"
)

// Connect opens this rank's socket and finds the way to its peers. All ranks call
// it at about the same time. It returns an error on every rank if datagrams
// between any two of them do not get through: the same one. The caller closes the
// Socket.
func Connect(ctx context.Context, cfg Config) (*Socket, error) {
	if cfg.Exchange == nil {
		return nil, errors.New("datagram: no Exchange function")
	}
	s, err := connect(ctx, &cfg)
	if err != nil {
		return nil, fmt.Errorf("datagram: rank %d: %w", cfg.Rank, err)
	}
	return s, nil
}

func connect(ctx context.Context, cfg *Config) (*Socket, error) {
	var conns [2]*net.UDPConn // of IPv4, IPv6
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	mine, err := prepare(cfg, &conns)
	if err != nil {
		mine = offer{failed: err.Error()}
	}
	blobs, failed := cfg.Exchange(ctx, mine.encode())
	if failed != nil {
		return nil, errors.Join(err, fmt.Errorf("exchange: %w", failed))
	}
	offers, failed := decodeOffers(blobs, cfg.Size)
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	f, err := family(offers)
	if err != nil {
		return nil, err
	}
	s := newSocket(conns[f], cfg)
	p, err := newProber(cfg, s, offers, f)
	if err == nil {
		err = p.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	conns[f] = nil // the Socket has it
	return s, nil
}

// prepare opens the sockets, and returns what to tell the others.
func prepare(cfg *Config, conns *[2]*net.UDPConn) (o offer, err error) {
	if err = cfg.validate(); err != nil {
		return o, err
	}
	rand.Read(o.nonce[:]) // never fails
	for f := range conns {
		var own []netip.Addr
		for _, a := range cfg.Listen {
			if a = a.Unmap(); suits(a, f) && !a.IsUnspecified() && !a.IsMulticast() && len(o.addrs) < maxAddrs {
				own = append(own, a)
			}
		}
		if len(own) == 0 {
			continue
		}
		if conns[f], err = listen(own, f, cfg); err != nil {
			return o, err
		}
		o.ports[f] = uint16(conns[f].LocalAddr().(*net.UDPAddr).Port)
		o.addrs = append(o.addrs, own...)
	}
	if len(o.addrs) == 0 {
		return o, fmt.Errorf("no address of %v can be used for UDP (hint: --iface chooses the network devices)", cfg.Listen)
	}
	return o, nil
}

// listen opens the socket of a family: at the one address, or, as a socket has only
// one, at all where there are several.
func listen(own []netip.Addr, family int, cfg *Config) (*net.UDPConn, error) {
	network, at := "udp4", netip.IPv4Unspecified()
	if family == 1 {
		network, at = "udp6", netip.IPv6Unspecified()
	}
	if len(own) == 1 {
		at = own[0]
	}
	c, err := ports.Listen(cfg.Ports, cfg.Rank, func(port uint16) (*net.UDPConn, error) {
		return net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, port)))
	})
	if err != nil {
		return nil, fmt.Errorf("listening at %v for UDP: %w", at, err)
	}
	return c, nil
}

// unreachable is the error that the reports of all ranks make, nil if all datagrams
// got through.
func unreachable(cfg *Config, blobs [][]byte, offers []offer, f int) error {
	if len(blobs) != cfg.Size {
		return fmt.Errorf("the exchange gave %d blobs for %d ranks", len(blobs), cfg.Size)
	}
	const most = 8
	var lines []string
	total := 0
	for r, b := range blobs {
		silent, err := decodeReport(b, cfg.Size)
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		for _, q := range silent {
			if total++; len(lines) < most {
				lines = append(lines, fmt.Sprintf("\n  %s <-> %s", spot(cfg, r, offers, f), spot(cfg, q, offers, f)))
			}
		}
	}
	if total == 0 {
		return nil
	}
	if more := total - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("\n  and %d pairs more", more))
	}
	return fmt.Errorf("UDP datagrams do not get through within %v, though TCP does:%s\nhint: does a firewall let UDP pass? --port-range says at which ports ranks listen",
		cfg.Timeout, strings.Join(lines, ""))
}

// spot says where a rank listens: "rank 1 (10.0.0.2:4711 on host b)".
func spot(cfg *Config, rank int, offers []offer, f int) string {
	var list []string
	for _, a := range offers[rank].addrs {
		if suits(a, f) {
			list = append(list, netip.AddrPortFrom(a, offers[rank].ports[f]).String())
		}
	}
	text := fmt.Sprintf("rank %d (%s", rank, strings.Join(list, ", "))
	if host := cfg.HostOf(rank); host != "" {
		text += " on host " + host
	}
	return text + ")"
}
