package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// place is where a rank listens, and the address that it tells others.
type place struct {
	listen *net.TCPAddr
	tell   net.IP
}

// findPlace chooses the address. Ranks of one host use the loopback address;
// others the address from which rank 0 can be reached, or, for rank 0, at which
// the seed address finds it.
func findPlace(ctx context.Context, cfg *config) (place, error) {
	loopback := net.IPv4(127, 0, 0, 1)
	if cfg.seed == "" {
		if cfg.oneHost() {
			return place{&net.TCPAddr{IP: loopback}, loopback}, nil
		}
		ip, err := anyAddress()
		return place{&net.TCPAddr{IP: ip}, ip}, err
	}
	seed, err := resolve(ctx, cfg.seed)
	if err != nil {
		return place{}, err
	}
	cfg.seed = seed.String() // numbers from now on
	port := 0
	if cfg.rank == 0 {
		port = seed.Port
	}
	if seed.IP.IsLoopback() && cfg.rank == 0 && cfg.localSize > 0 && !cfg.oneHost() {
		// Debian gives a host's own name the address 127.0.1.1.
		ip, err := anyAddress()
		return place{&net.TCPAddr{Port: port}, ip}, err
	}
	ip, err := addressTowards(seed)
	return place{&net.TCPAddr{IP: ip, Port: port}, ip}, err
}

// resolve looks up the seed's host, again and again until ctx is done: in a
// cluster that is starting, names come up late.
func resolve(ctx context.Context, seed string) (*net.TCPAddr, error) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, fmt.Errorf("seed address %q: %w", seed, err)
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, fmt.Errorf("seed address %q: %w", seed, err)
	}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ips, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if err == nil {
			return &net.TCPAddr{IP: ips[0].IP, Port: number, Zone: ips[0].Zone}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("seed address %q: %w", seed, errors.Join(context.Cause(ctx), err))
		case <-time.After(wait):
		}
	}
}

// addressTowards returns this host's address on the way to seed. Nothing is
// sent.
func addressTowards(seed *net.TCPAddr) (net.IP, error) {
	conn, err := net.Dial("udp", seed.String())
	if err != nil {
		return nil, fmt.Errorf("no way to the seed address %s: %w", seed, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP, nil
}

// anyAddress returns an address at which other hosts may find this one.
func anyAddress() (net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP, nil
		}
	}
	return nil, errors.New("this host has no address that other hosts could reach")
}
