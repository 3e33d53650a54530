package iface

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// class is how well an address suits for other hosts. Those of the best class
// that there is are offered, tunnels behind them, and nothing else.
type class uint8

const (
	suits   class = iota
	tunnel        // may be the only way to some hosts
	private       // may have the same addresses on every host: bridges for containers
	link          // is unique on one link only
	self          // reaches nobody else
)

func classOf(d *Device, ip netip.Addr) class {
	switch {
	case ip.IsLoopback():
		return self
	case ip.IsLinkLocalUnicast():
		return link
	case d.Kind == Container || d.Kind == Loopback:
		return private
	case d.Kind == Tunnel:
		return tunnel
	}
	return suits
}

// why says what speaks against a class.
var why = [...]string{
	tunnel:  "is a tunnel",
	private: "may be the same on every host",
	link:    "is an address of one link only",
	self:    "reaches this host only",
}

// candidate is an address that may be offered.
type candidate struct {
	Address
	class class
	place int // in the Spec
}

// Choose returns the addresses to offer to other hosts, best first, and those
// that are left out; Why of each says why. Equal input gives equal output.
//
// Without a Spec that asks for something, these are the addresses of the
// devices that suit, and of tunnels behind them; where there are none, of
// bridges for containers, else those of one link, else the loopback's. Faster
// devices come first. A Spec that asks for addresses gets them, whatever they
// are, but addresses of one link only when it names such a network or nothing
// else is left. Nothing to offer is an error, which tells what there is.
func Choose(devices []Device, spec Spec) (offered, left []Address, err error) {
	all, left := candidates(devices, spec)
	best := self
	for _, c := range all {
		best = min(best, c.class)
	}
	var chosen []candidate
	for _, c := range all {
		switch {
		case spec.Asks() && c.class == link && best < link && spec.items[c.place].name != "":
			c.Why = why[link] // the device has better ones
			left = append(left, c.Address)
			continue
		case spec.Asks():
			c.Why = "was asked for"
		case c.class == best && best == suits:
		case c.class == best:
			c.Why = why[best] + ", for want of anything else"
		case c.class == tunnel:
			c.Why = why[tunnel] + ", behind the others"
		default:
			c.Why = why[c.class]
			left = append(left, c.Address)
			continue
		}
		chosen = append(chosen, c)
	}
	slices.SortStableFunc(chosen, compare)
	for _, c := range chosen {
		offered = append(offered, c.Address)
	}
	if len(offered) == 0 {
		return nil, left, nothing(devices, spec)
	}
	return offered, left, nil
}

// candidates returns the addresses that the Spec allows, and the others.
func candidates(devices []Device, spec Spec) (all []candidate, left []Address) {
	for i := range devices {
		d := &devices[i]
		for _, p := range d.Addrs {
			ip := p.Addr().Unmap()
			if !usable(ip) {
				continue
			}
			if ip.Is6() && ip.IsLinkLocalUnicast() {
				ip = ip.WithZone(d.Name)
			}
			c := candidate{Address{IP: ip, Device: d.Name, Kind: d.Kind, Speed: d.Speed}, classOf(d, ip), spec.place(d.Name, ip)}
			switch {
			case !d.Up:
				c.Why = "is down"
			case spec.excludes(d.Name, ip):
				c.Why = "is excluded"
			case spec.Asks() && c.place < 0:
				c.Why = "was not asked for"
			default:
				all = append(all, c)
				continue
			}
			left = append(left, c.Address)
		}
	}
	return all, left
}

// usable tells addresses that somebody can be reached at.
func usable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func compare(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.place, b.place),
		cmp.Compare(a.class, b.class),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(b.Speed, a.Speed),
		// Where IPv4 and IPv6 work it makes no difference, and where one does not it is
		// more often the latter.
		cmp.Compare(a.IP.BitLen(), b.IP.BitLen()),
	)
}

func nothing(devices []Device, spec Spec) error {
	if spec.text == "" {
		return fmt.Errorf("this host has no address to offer to others; it has %s", List(devices))
	}
	return fmt.Errorf("%q matches no address of this host; it has %s", spec.text, List(devices))
}
