package netconn

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

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
			continue // it went away meanwhile
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
			p.Device = "lo" // all of 127.0.0.0/8 is
		}
		if p.Addr.IsLinkLocalUnicast() && p.Addr.Is6() && p.Device == "" {
			return nil, fmt.Errorf("no network device has the link-local address %v", a)
		}
		all = append(all, p)
	}
	return all, nil
}

// zoned returns the address as sockets want it: link-local addresses of IPv6
// need the name of this host's device.
func zoned(a netip.Addr, device string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(device)
	}
	return a
}

// listen opens a listener at p, at a port of the range; it tries the one numbered
// first first.
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

// listenAll opens one listener per address and completes the places with their
// ports. An address where that is not possible is left out, unless it is the
// last hope.
func (m *connector) listenAll() error {
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
		p.Port = uint16(ln.Addr().(*net.TCPAddr).Port)
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

// HostID returns a digest that two processes share when they share a loopback device: same
// boot of the same machine, same network namespace. Where the kernel does not say, the host's
// name stands for them.
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
