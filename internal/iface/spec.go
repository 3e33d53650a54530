package iface

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Spec says which devices and addresses to use. The zero Spec leaves the choice
// to Choose.
type Spec struct {
	text  string
	items []item
}

// maxSpec is how long the text of a Spec may be, in bytes.
const maxSpec = 4096

// item is one element of the list.
type item struct {
	exclude bool
	exact   bool         // the whole name, not its beginning
	name    string       // of devices; "" when it is a network
	network netip.Prefix // of addresses
}

// Parse reads a list of names and networks between commas, as NCCL_SOCKET_IFNAME
// has it, with networks in addition:
//
//	eth        devices whose names begin with eth
//	=eth0      the device eth0
//	10.0.0.0/8 addresses in that network; also fd00::/8, 10.0.0.3
//	^docker    none whose names begin with docker; ^=docker0, ^10.0.0.0/8
//
// A sign in front of the first element holds for all elements that have none:
// "^docker,lo" excludes both, "=eth0,eth1" is two whole names. What is named
// first is offered first. The empty text is the zero Spec.
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
		it, rest := signs(strings.TrimSpace(element))
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

// signs cuts the signs off an element.
func signs(element string) (it item, rest string) {
	rest, it.exclude = strings.CutPrefix(element, "^")
	rest, it.exact = strings.CutPrefix(rest, "=")
	return it, rest
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
	// The kernel's rule, and no signs in the middle.
	if len(text) > 15 || strings.ContainsAny(text, "^=: \t\n") {
		return fmt.Errorf("%.60q: %w", text, errName)
	}
	it.name = text
	return nil
}

// String is the text that the Spec was read from.
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

// place returns the position of the first element that asks for an address; -1
// when none does.
func (s Spec) place(device string, ip netip.Addr) int {
	return slices.IndexFunc(s.items, func(it item) bool { return !it.exclude && it.matches(device, ip) })
}

// excludes says whether an element forbids an address.
func (s Spec) excludes(device string, ip netip.Addr) bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return it.exclude && it.matches(device, ip) })
}

// Asks says whether the Spec asks for anything, and does not only exclude.
func (s Spec) Asks() bool {
	return slices.ContainsFunc(s.items, func(it item) bool { return !it.exclude })
}
