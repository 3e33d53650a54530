package netconn

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// place is an address at which a rank listens.
type place struct {
	Addr   netip.Addr // without zone
	Port   uint16
	Device string       // "" if not known
	subnet netip.Prefix // not valid if not known; not sent to other ranks
}

// String returns the place as in errors: "10.0.0.2:41234, eth0".
func (p place) String() string { return p.on(netip.AddrPortFrom(p.Addr, p.Port).String()) }

// host returns String without the port.
func (p place) host() string { return p.on(p.Addr.String()) }

// on appends the device to an address.
func (p place) on(address string) string {
	return strings.TrimSuffix(address+", "+p.Device, ", ")
}

// locate returns the places of addrs on this host, without ports.
func locate(addrs []netip.Addr) ([]place, error) {
	type home struct {
		device string
		subnet netip.Prefix
	}
	homes := map[netip.Addr][]home{} // link-local addresses may have several
	devices, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network devices: %w", err)
	}
	for _, d := range devices {
		list, err := d.Addrs()
		if err != nil {
			continue // it disappeared in the meantime
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				homes[p.Addr()] = append(homes[p.Addr()], home{d.Name, p.Masked()})
			}
		}
	}
	var all []place
	for _, a := range addrs {
		a = a.Unmap()
		p := place{Addr: a.WithZone("")}
		for _, h := range homes[p.Addr] {
			if a.Zone() == "" || a.Zone() == h.device {
				p.Device, p.subnet = h.device, h.subnet
				break
			}
		}
		if p.Addr.IsLoopback() && p.Device == "" {
			p.Device = "lo" // all of 127.0.0.0/8 is on lo
		}
		if p.Addr.IsLinkLocalUnicast() && p.Addr.Is6() && p.Device == "" {
			return nil, fmt.Errorf("no network device has the link-local address %v", a)
		}
		all = append(all, p)
	}
	return all, nil
}

// zoned returns the address as sockets need it: link-local addresses of IPv6 need the name of this host's device.
func zoned(a netip.Addr, device string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(device)
	}
	return a
}

// listen opens a listener at p, at a port of the range. It begins with port number first of the range.
func listen(p place, among PortRange, first int) (*net.TCPListener, error) {
	network := "tcp6"
	if p.Addr.Is4() {
		network = "tcp4"
	}
	ln, err := ListenIn(among, first, func(port uint16) (*net.TCPListener, error) {
		return net.ListenTCP(network, net.TCPAddrFromAddrPort(netip.AddrPortFrom(zoned(p.Addr, p.Device), port)))
	})
	if err != nil {
		return nil, fmt.Errorf("listening at %v: %w", p.Addr, err)
	}
	return ln, nil
}

// listenAll opens one listener per address and sets the ports of the places. An address where that fails is left out,
// unless no other is left.
func (m *Mesh) listenAll() error {
	if len(m.cfg.Listen) == 0 {
		return errors.New("no address to listen at (hint: --iface chooses the network devices)")
	}
	places, err := locate(m.cfg.Listen)
	if err != nil {
		return err
	}
	var failed []error
	for i, p := range places {
		ln, err := listen(p, m.cfg.Ports, m.cfg.Rank*len(places)+i)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if p.Port, err = PortOf(ln); err != nil {
			ln.Close()
			failed = append(failed, err)
			continue
		}
		m.mine = append(m.mine, p)
		m.listeners = append(m.listeners, ln)
	}
	if len(m.listeners) == 0 {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		m.cfg.Log.Warn("treerun: an address is left out", "rank", m.cfg.Rank, "error", err)
	}
	return nil
}

// HostID returns a digest that two processes share if they share a loopback device: the same boot of the same machine,
// and the same network namespace. If the kernel does not report these, the host's name is used instead.
func HostID() (id [16]byte) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/net")
	text := string(boot) + " " + space
	if errors.Join(err, err2) != nil {
		text, _ = os.Hostname()
	}
	digest := sha256.Sum256([]byte(text))
	copy(id[:], digest[:])
	return id
}

// maxPaths is the number of paths to one peer that are tried: two for each of its addresses.
const maxPaths = 2 * maxPlaces

// path is a pair of addresses: one of this rank's, and one of a peer's.
type path struct {
	from place
	at   place
}

// paths returns the paths from a rank that listens at own to one that listens at theirs, best first: every one of their
// addresses from the address that suits it best, then from the second best, and so on. Both lists have the best
// addresses first.
func paths(own, theirs []place, sameHost bool) []path {
	type ranked struct {
		path
		cost int
	}
	var all []ranked
	for _, at := range theirs {
		// An address that both hosts have, as bridges of containers do, leads back to this host.
		if !sameHost && slices.ContainsFunc(own, func(p place) bool { return p.Addr == at.Addr }) {
			continue
		}
		var near, far []path // own address in the subnet of the peer's address, or not
		for _, from := range own {
			switch {
			case !suits(from, at, sameHost):
			case from.subnet.Contains(at.Addr):
				near = append(near, path{from, at})
			default:
				far = append(far, path{from, at})
			}
		}
		for turn, p := range append(near, far...) {
			cost := 2 * turn
			if turn >= len(near) {
				cost++
			}
			all = append(all, ranked{p, cost})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return a.cost - b.cost })
	var out []path
	for _, r := range all[:min(len(all), maxPaths)] {
		out = append(out, r.path)
	}
	return out
}

// suits reports whether packets can travel from one address to the other at all.
func suits(from, at place, sameHost bool) bool {
	return from.Addr.Is4() == at.Addr.Is4() &&
		from.Addr.IsLoopback() == at.Addr.IsLoopback() && (sameHost || !at.Addr.IsLoopback()) &&
		from.Addr.IsLinkLocalUnicast() == at.Addr.IsLinkLocalUnicast()
}

// PortRange is a range of ports, including both ends. The zero value is any port.
type PortRange struct{ Lo, Hi int }

// ParsePorts parses LO-HI, with 1 <= LO <= HI <= 65535.
func ParsePorts(text string) (PortRange, error) {
	lo, hi, _ := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(lo, 10, 16)
	b, err2 := strconv.ParseUint(hi, 10, 16)
	if err1 != nil || err2 != nil || a == 0 || a > b {
		return PortRange{}, fmt.Errorf("%.40q is no range of ports, want LO-HI, such as 40000-40050", text)
	}
	return PortRange{int(a), int(b)}, nil
}

// SeedPorts are the ports at which processes find each other: they lie below those that Linux gives to connections.
var SeedPorts = PortRange{Lo: 20000, Hi: 31999}

// Pick returns a port of the range, the same one for the same text.
func (r PortRange) Pick(text string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return r.Lo + int(h.Sum32()%uint32(r.Count()))
}

// Count returns the number of ports of the range, 0 for any port.
func (r PortRange) Count() int {
	if r == (PortRange{}) {
		return 0
	}
	return r.Hi - r.Lo + 1
}

// String returns the range in the form of the flag.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.Lo, r.Hi) }

// ListenIn calls open with one port of the range after the other until a port is free: until the error is nil, or not
// EADDRINUSE. It begins with port number first of the range, so that the ranks of a host do not all try the same ones.
// If all ports are taken, the error wraps EADDRINUSE. If the range is any port, ListenIn calls open once, with 0.
func ListenIn[T any](r PortRange, first int, open func(port uint16) (T, error)) (T, error) {
	n := r.Count()
	if n == 0 {
		return open(0)
	}
	for i := range n {
		l, err := open(uint16(r.Lo + (max(first, 0)+i)%n))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
	var none T
	return none, fmt.Errorf("all ports from %d to %d are taken (hint: --port-range needs one per rank of a host, and "+
		"some more): %w", r.Lo, r.Hi, syscall.EADDRINUSE)
}
