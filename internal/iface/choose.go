package iface

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/job"
)

// class is the suitability of an address for other hosts. The addresses of the best class that exists are offered,
// behind them tunnels and the class last, and no others.
type class uint8

const (
	suits   class = iota
	tunnel        // may be the only way to some hosts
	last          // may be the host's own: on a bridge br-NAME, or routed to the loopback or a dummy device
	private       // may have the same addresses on every host: bridges for containers
	link          // is unique on one link only
	self          // reaches this host only
)

func classOf(d *Device, ip netip.Addr, single bool) class {
	switch {
	case ip.IsLoopback():
		return self
	case ip.IsLinkLocalUnicast():
		return link
	case d.Kind == Bridge, single && (d.Kind == Loopback || strings.HasPrefix(d.Name, "dummy")):
		return last
	case d.Kind == Container || d.Kind == Loopback:
		return private
	case d.Kind == Tunnel:
		return tunnel
	}
	return suits
}

// drawbacks holds the drawback of each class.
var drawbacks = [...]string{
	tunnel:  "is a tunnel",
	last:    "may be the host's own",
	private: "may be the same on every host",
	link:    "is an address of one link only",
	self:    "reaches this host only",
}

// candidate is an address that may be offered.
type candidate struct {
	Address
	class   class
	place   int          // in the Spec
	network netip.Prefix // of the address
}

// Choose returns the addresses to offer to other hosts, best first, and those that are left out; Why of each holds the
// reason. Equal input gives equal output.
//
// Without a Spec that selects addresses, the offered ones are the addresses of the suitable devices, and behind them
// those of tunnels, of bridges br-NAME, and of networks of one address (/32, /128) on the loopback and on dummy
// devices; if there are none, those of bridges for containers, else those of one link, else the loopback's. Faster
// devices come first. If there are more than job.MaxAddresses, the first address of each network is taken before
// others. A Spec that selects addresses gets all of them, but those of one link only if the Spec names such a network
// or no others are left. If there is no address to offer, Choose returns an error that lists the existing ones.
func Choose(devices []Device, spec Spec) (offered, left []Address, err error) {
	all, left := candidates(devices, spec)
	best := self
	for _, c := range all {
		best = min(best, c.class)
	}
	var chosen []candidate
	for _, c := range all {
		switch {
		case spec.Selects() && c.class == link && best < link && spec.items[c.place].name != "":
			c.Why = drawbacks[link] // the device has better ones
			left = append(left, c.Address)
			continue
		case spec.Selects():
			c.Why = "is selected"
		case c.class == best && best == suits:
		case c.class == best:
			c.Why = drawbacks[best] + ", and there is no better one"
		case c.class == tunnel, c.class == last:
			c.Why = drawbacks[c.class] + ", after the others"
		default:
			c.Why = drawbacks[c.class]
			left = append(left, c.Address)
			continue
		}
		chosen = append(chosen, c)
	}
	slices.SortStableFunc(chosen, compare)
	taken := selectOffered(chosen)
	for i, c := range chosen {
		if !taken[i] {
			c.Why = tooMany
			left = append(left, c.Address)
			continue
		}
		offered = append(offered, c.Address)
	}
	if len(offered) == 0 {
		return nil, left, noAddressError(devices, spec)
	}
	return offered, left, nil
}

// tooMany is the reason to leave out an address of a host that has job.MaxAddresses others.
const tooMany = "exceeds the limit of addresses"

// selectOffered reports for each of the candidates, best first, whether it is offered.
func selectOffered(all []candidate) []bool {
	taken, n := make([]bool, len(all)), 0
	seen := map[netip.Prefix]bool{}
	for _, others := range []bool{false, true} {
		for i, c := range all {
			if n < job.MaxAddresses && !taken[i] && (others || !seen[c.network]) {
				taken[i], seen[c.network], n = true, true, n+1
			}
		}
	}
	return taken
}

// Surplus returns the number of addresses of each device that were left out because the host has more than
// job.MaxAddresses: "36 of eth0, 4 of eth1", "" if there are none. left is the list that Choose returned.
func Surplus(left []Address) string {
	counts := map[string]int{}
	for _, a := range left {
		if a.Why == tooMany {
			counts[a.Device]++
		}
	}
	var text []string
	for _, device := range slices.Sorted(maps.Keys(counts)) {
		text = append(text, fmt.Sprintf("%d of %s", counts[device], device))
	}
	return strings.Join(text, ", ")
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
			c := candidate{Address{IP: ip, Device: d.Name, Kind: d.Kind, Speed: d.Speed, MTU: d.MTU},
				classOf(d, ip, p.IsSingleIP()), spec.place(d.Name, ip), p.Masked()}
			switch {
			case !d.Up:
				c.Why = "is down"
			case spec.excludes(d.Name, ip):
				c.Why = "is excluded"
			case spec.Selects() && c.place < 0:
				c.Why = "is not selected"
			default:
				all = append(all, c)
				continue
			}
			left = append(left, c.Address)
		}
	}
	return all, left
}

// usable reports whether a host can be reached at ip.
func usable(ip netip.Addr) bool {
	return ip.IsValid() && !ip.IsUnspecified() && !ip.IsMulticast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func compare(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.place, b.place),
		cmp.Compare(a.class, b.class),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(b.Speed, a.Speed),
		// If both IPv4 and IPv6 work, the order makes no difference; if one does not, it is more often IPv6.
		cmp.Compare(a.IP.BitLen(), b.IP.BitLen()),
	)
}

func noAddressError(devices []Device, spec Spec) error {
	if spec.text == "" {
		return fmt.Errorf("this host has no address to offer to others; it has %s", List(devices))
	}
	return fmt.Errorf("%q matches no address of this host; it has %s", spec.text, List(devices))
}

// Spec selects devices and addresses. The zero Spec leaves the choice to Choose.
type Spec struct {
	text  string
	items []item
}

// maxSpec is the maximum length of the text of a Spec, in bytes.
const maxSpec = 4096

// item is one element of the list.
type item struct {
	exclude bool
	exact   bool         // name must match in full, not only its beginning
	name    string       // of devices; "" for a network
	network netip.Prefix // of addresses
}

// Parse parses a comma-separated list of names and networks, in the form of NCCL_SOCKET_IFNAME, with networks in
// addition:
//
//	eth        devices whose names begin with eth
//	=eth0      the device eth0
//	10.0.0.0/8 addresses in that network; also fd00::/8, 10.0.0.3
//	^docker    none whose names begin with docker; ^=docker0, ^10.0.0.0/8
//
// A sign in front of the first element applies to all elements without a sign: "^docker,lo" excludes both, "=eth0,eth1"
// is two whole names. Addresses are offered in the order of the elements. The empty text is the zero Spec.
func Parse(text string) (Spec, error) {
	s := Spec{text: text}
	if text == "" {
		return s, nil
	}
	if len(text) > maxSpec {
		return Spec{}, fmt.Errorf("a list of %d bytes, at most %d are possible", len(text), maxSpec)
	}
	var first item
	for i, element := range strings.Split(text, ",") {
		var it item
		var rest string
		rest, it.exclude = strings.CutPrefix(strings.TrimSpace(element), "^")
		rest, it.exact = strings.CutPrefix(rest, "=")
		switch {
		case i == 0:
			first = it
		case !it.exclude && !it.exact:
			it = first
		}
		if rest == "" {
			return Spec{}, fmt.Errorf("%.60q has an empty element; want names of devices or networks between commas", text)
		}
		if err := it.parse(rest); err != nil {
			return Spec{}, fmt.Errorf("%.60q: %w", text, err)
		}
		s.items = append(s.items, it)
	}
	return s, nil
}

var errName = errors.New("want a device's name, its beginning, or a network such as 10.0.0.0/8")

func (it *item) parse(text string) error {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		it.network = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	if strings.Contains(text, "/") {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%.60q: %w", text, errName)
		}
		it.network = network.Masked()
		return nil
	}
	// The kernel's rule, and no signs within the name.
	if len(text) > 15 || strings.ContainsAny(text, "^=: \t\n") {
		return fmt.Errorf("%.60q: %w", text, errName)
	}
	it.name = text
	return nil
}

// String returns the text that the Spec was parsed from.
func (s Spec) String() string { return s.text }

func (it *item) matches(device string, ip netip.Addr) bool {
	switch {
	case it.name == "":
		return it.network.Contains(ip.WithZone(""))
	case it.exact:
		return device == it.name
	}
	return strings.HasPrefix(device, it.name)
}

// place returns the position of the first element that selects an address, -1 if none does.
func (s Spec) place(device string, ip netip.Addr) int {
	return slices.IndexFunc(s.items, func(it item) bool { return !it.exclude && it.matches(device, ip) })
}

// excludes reports whether an element excludes an address.
func (s Spec) excludes(device string, ip netip.Addr) bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return it.exclude && it.matches(device, ip) })
}

// Selects reports whether the Spec selects addresses or devices, and does not only exclude some.
func (s Spec) Selects() bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return !it.exclude })
}
