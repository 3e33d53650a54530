// Package iface decides which of a host's addresses its ranks offer to other
// hosts, and in which order. Choose is a pure function over a list of network
// devices; Read makes the list of this host. The package opens no socket.
// Package rank and the launcher import it.
package iface

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Kind is what sort of device something is, as far as that matters for reaching
// other hosts. A smaller kind is the better one.
type Kind uint8

// The kinds of devices.
const (
	InfiniBand Kind = iota // IP over InfiniBand
	Ethernet               // a card, or what stands for one: a bond, a VLAN
	Unknown                // nothing known against it, such as a container's eth0
	Tunnel                 // a VPN or another tunnel
	Container              // a bridge or pair for containers and virtual machines of this host
	Loopback
)

var kindNames = [...]string{"InfiniBand", "Ethernet", "unknown kind", "VPN or tunnel", "for containers of this host",
	"loopback"}

// String is the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Device is one network device of a host.
type Device struct {
	Name  string
	Kind  Kind
	Up    bool           // switched on, and with a carrier
	Speed int            // Mbit/s, 0 when the system does not tell
	Addrs []netip.Prefix // its addresses, each with its network
}

// Address is one address of a host.
type Address struct {
	IP     netip.Addr // with a zone when it is of one link only (fe80::1%eth0)
	Device string
	Kind   Kind
	Speed  int    // of the device, Mbit/s; 0 when the system does not tell
	Why    string // why it is offered where it stands, or why it is left out
}

// String is the address, its device and why.
func (a Address) String() string {
	what := a.Device
	if a.Speed > 0 {
		what += ", " + strconv.Itoa(a.Speed) + " Mbit/s"
	}
	if a.Why != "" {
		what += ": " + a.Why
	}
	return fmt.Sprintf("%s (%s)", a.IP, what)
}

// List is a list of devices and their addresses for people: "eth0 10.0.0.3/24,
// lo 127.0.0.1/8, eth1 (down)".
func List(devices []Device) string {
	var all []string
	for _, d := range devices {
		text := d.Name
		if !d.Up {
			text += " (down)"
		}
		for _, p := range d.Addrs {
			text += " " + p.String()
		}
		if len(d.Addrs) == 0 && d.Up {
			text += " (no address)"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no device at all"
	}
	return strings.Join(all, ", ")
}
