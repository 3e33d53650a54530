package rank

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/rank/internal/environ"
)

// network holds where a rank listens, and which addresses it offers to others.
type network struct {
	listen      netip.Addr       // unspecified: at all addresses
	port        int              // 0: any
	seedPort    int              // by rank 0, on this host; 0: none
	seeds       []netip.AddrPort // of the seed
	offered     []iface.Address  // best first
	left        []iface.Address
	offeredOnly bool     // calls are taken at addresses that are offered only
	zones       []string // devices with an address of one link
}

var (
	loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6 = netip.IPv6Loopback()
)

// ownSeedLimit is how long rank 0 waits for the address of the seed's name. It needs the address only to decide whether
// the name stands for the loopback.
const ownSeedLimit = 2 * time.Second

// findNetwork chooses addresses. Ranks that are known to be on one host, as oneHost reports, or that meet at a loopback
// address, use the loopback. Others listen at all addresses, and offer those that package iface chooses, beginning with
// the address on the way to rank 0.
func findNetwork(ctx context.Context, cfg *config, oneHost bool) (*network, error) {
	n := &network{}
	if cfg.Seed == "" && oneHost {
		n.useLoopback(loopback4)
		return n, nil
	}
	if err := n.findSeed(ctx, cfg); err != nil {
		return nil, err
	}
	if len(n.seeds) > 0 && cfg.SeedIsLoopback() {
		n.useLoopback(n.seeds[0].Addr())
		n.avoidSeedPort()
		return n, nil
	}
	devices, err := iface.Read()
	if err != nil {
		return nil, err
	}
	if n.offered, n.left, err = iface.Choose(devices, cfg.parsed.Iface); err != nil {
		if cfg.parsed.Iface.String() != "" {
			err = fmt.Errorf("%s: %w", cfg.Source(environ.SettingIface), err)
		}
		return nil, err
	}
	if err = n.reachesOthers(cfg); err != nil {
		return nil, err
	}
	for _, d := range devices {
		if d.Up && slices.ContainsFunc(d.Addrs, func(p netip.Prefix) bool { return needsZone(p.Addr()) }) {
			n.zones = append(n.zones, d.Name)
		}
	}
	n.listen = netip.IPv6Unspecified() // IPv4, too
	n.avoidSeedPort()
	if n.offeredOnly = cfg.parsed.Iface.String() != ""; !n.offeredOnly {
		for _, seed := range n.seeds { // nothing is sent
			if ip, err := sourceTowards(seed); err == nil {
				n.putFirst(ip, "on the way to the seed address")
				break
			}
		}
	}
	return n, nil
}

// reachesOthers refuses, for a job on several hosts, a choice of the user's that left out all addresses that other
// hosts could reach. Addresses that the choice names are accepted as they are.
func (n *network) reachesOthers(cfg *config) error {
	spec := cfg.parsed.Iface
	if !cfg.SeveralHosts() || spec.String() == "" || spec.Selects() {
		return nil
	}
	for _, a := range n.offered {
		if a.Kind != iface.Loopback && a.Kind != iface.Container && !a.IP.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("%s %s leaves no address of host %s that other hosts can reach, but %s; left out are %s (hint: "+
		"name the device to use, as in eth1 or =eth1)",
		cfg.Source(environ.SettingIface), spec, cfg.Host, numbers.Join(n.offered, ", "), numbers.Join(n.left, ", "))
}

// avoidSeedPort keeps this rank off rank 0's port, if both are on one host.
func (n *network) avoidSeedPort() {
	for _, s := range n.seeds {
		if n.port == 0 && (s.Addr().IsLoopback() || n.device(s.Addr()) != "") {
			n.seedPort = int(s.Port())
		}
	}
}

func (n *network) useLoopback(ip netip.Addr) {
	n.listen = ip
	n.offered = []iface.Address{{IP: ip, Device: "lo", Kind: iface.Loopback, Why: "all ranks are on this host"}}
}

// findSeed resolves the seed, and records the port at which rank 0 listens.
func (n *network) findSeed(ctx context.Context, cfg *config) error {
	if cfg.Seed == "" {
		return nil
	}
	host, service, err := net.SplitHostPort(cfg.Seed)
	port := 0
	if err == nil {
		port, err = net.DefaultResolver.LookupPort(ctx, "tcp", service)
	}
	if err != nil {
		return fmt.Errorf("seed address %q: %w", cfg.Seed, err)
	}
	if cfg.Rank == 0 {
		n.port = port
		limited, cancel := context.WithTimeout(ctx, ownSeedLimit)
		defer cancel()
		ctx = limited
	}
	found, err := lookUp(ctx, host)
	if err != nil && cfg.Rank != 0 { // rank 0 listens nevertheless
		return fmt.Errorf("seed address %q: %w", cfg.Seed, err)
	}
	for _, ip := range found {
		n.seeds = append(n.seeds, netip.AddrPortFrom(ip, uint16(port)))
	}
	return nil
}

// lookUp returns the addresses of a host. It repeats the lookup until ctx is done: in a cluster that is starting, names
// appear late.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	retry := backoff.Retry{Min: 10 * time.Millisecond, Max: time.Second}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for err != nil {
		if !retry.Pause(ctx) {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		found, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return slices.Compact(found), nil
}

// sourceTowards returns the source address that the system chooses for packets to another address.
func sourceTowards(to netip.AddrPort) (netip.Addr, error) {
	conn, err := net.Dial("udp", to.String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	if at, is := conn.LocalAddr().(*net.UDPAddr); is {
		return at.AddrPort().Addr().Unmap(), nil
	}
	return netip.Addr{}, netconn.ErrNoName
}

// putFirst moves an address that is offered, or was left out, to the front.
func (n *network) putFirst(ip netip.Addr, why string) {
	if ip.IsLoopback() {
		return
	}
	for _, list := range []*[]iface.Address{&n.offered, &n.left} {
		i := slices.IndexFunc(*list, func(a iface.Address) bool { return a.IP == ip })
		if i >= 0 {
			a := (*list)[i]
			a.Why = why
			*list = slices.Delete(*list, i, i+1)
			n.offered = slices.Insert(n.offered, 0, a)
			return
		}
	}
}

// accepts reports whether a call that came to a local address is accepted: where the user has named the network, one to
// an address that is offered, the seed's or the loopback's.
func (n *network) accepts(local netip.Addr) bool {
	local = local.Unmap().WithZone("")
	return !n.offeredOnly || local.IsLoopback() ||
		slices.ContainsFunc(n.offered, func(a iface.Address) bool { return a.IP.WithZone("") == local }) ||
		slices.ContainsFunc(n.seeds, func(s netip.AddrPort) bool { return s.Addr().WithZone("") == local })
}

func needsZone(ip netip.Addr) bool { return ip.Is6() && ip.IsLinkLocalUnicast() }

// device returns the name of the device that has an address, "" when it is not
// among those that were looked at.
func (n *network) device(ip netip.Addr) string {
	for _, a := range slices.Concat(n.offered, n.left) {
		if a.IP.WithZone("") == ip.WithZone("") {
			return a.Device
		}
	}
	return ""
}

// source returns the source of packets from this rank to an address: "10.0.0.3, eth0"; "" when there is no route.
func (n *network) source(to netip.AddrPort) string {
	ip, err := sourceTowards(to)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(ip.String()+", "+n.device(ip), ", ")
}

// surplus names the addresses of this host that its ranks do not offer because there are too many, "" for none.
func (n *network) surplus(cfg *config) string {
	text := iface.Surplus(n.left)
	if text != "" {
		text = fmt.Sprintf("the ranks on host %s offer %d of its addresses and leave out %s (hint: %s chooses)", cfg.Host,
			len(n.offered), text, cfg.Source(environ.SettingIface))
	}
	return text
}

// ips returns the addresses that are offered.
func (n *network) ips() []netip.Addr {
	all := make([]netip.Addr, len(n.offered))
	for i, a := range n.offered {
		all[i] = a.IP
	}
	return all
}

// listen opens a listener at addr: at port if that is not 0, else at a port of the range.
// The ranks of a host begin at different places of the range, and none takes the port
// taken.
func listen(addr netip.Addr, port int, among netconn.PortRange, localRank, taken int) (*net.TCPListener, error) {
	at := func(port uint16) (*net.TCPListener, error) {
		if addr.IsUnspecified() { // without a host, Go listens at all addresses of the families that there are
			return net.ListenTCP("tcp", &net.TCPAddr{Port: int(port)})
		}
		return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
	}
	if port != 0 {
		return at(uint16(port))
	}
	return netconn.ListenIn(among, localRank, func(port uint16) (*net.TCPListener, error) {
		if int(port) == taken && taken != 0 {
			return nil, syscall.EADDRINUSE
		}
		return at(port)
	})
}
