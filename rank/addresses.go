package rank

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/treerun/treerun/internal/iface"
)

// What a rank offers travels in memberlist's metadata, which has 512 bytes at
// most. So the addresses are packed: each is its length, 4 or 16, its bytes,
// the length of its device's name, and that.
const (
	maxPacked = 300 // bytes of all addresses
	maxDevice = 15  // bytes of a name, the kernel's limit
	maxSeeds  = 8   // addresses in a seed that rank 0 tells the launcher
)

// endpoint is an address that a rank offers, and the device that has it there.
type endpoint struct {
	ip     netip.Addr // without a zone, which would be the other host's
	device string
}

// packAddresses packs as many addresses as there is room for.
func packAddresses(all []iface.Address) []byte {
	var b []byte
	for _, a := range all {
		ip := a.IP.WithZone("").AsSlice()
		device := a.Device[:min(len(a.Device), maxDevice)]
		if len(b)+2+len(ip)+len(device) > maxPacked {
			break
		}
		b = append(append(b, byte(len(ip))), ip...)
		b = append(append(b, byte(len(device))), device...)
	}
	return b
}

var errAddresses = errors.New("addresses that make no sense")

// unpackAddresses is the opposite. There is at least one address.
func unpackAddresses(b []byte) ([]endpoint, error) {
	if len(b) > maxPacked {
		return nil, fmt.Errorf("%w: %d bytes", errAddresses, len(b))
	}
	var all []endpoint
	for len(b) > 0 {
		n := int(b[0])
		if n != 4 && n != 16 || len(b) < 2+n || int(b[1+n]) > maxDevice || len(b) < 2+n+int(b[1+n]) {
			return nil, errAddresses
		}
		ip, _ := netip.AddrFromSlice(b[1 : 1+n])
		end := 2 + n + int(b[1+n])
		device := string(b[2+n : end])
		if ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6() || strings.ContainsFunc(device, unprintable) {
			return nil, errAddresses
		}
		all = append(all, endpoint{ip, device})
		b = b[end:]
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: none at all", errAddresses)
	}
	return all, nil
}

func unprintable(r rune) bool { return r < ' ' || r >= 0x7f }

// joinSeeds makes one text of the addresses at which rank 0 listens, for the
// launcher to pass on. splitSeeds is the opposite.
func joinSeeds(all []netip.AddrPort) string {
	var texts []string
	for _, a := range all[:min(len(all), maxSeeds)] {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}

func splitSeeds(text string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for t := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddrPort(t)
		if err != nil || a.Port() == 0 || len(all) == maxSeeds {
			return nil, fmt.Errorf("the launcher says that rank 0 listens at %.200q, which are no addresses", text)
		}
		all = append(all, a)
	}
	return all, nil
}

// reachable returns the addresses to try for what was offered, in order.
// Addresses of one link are tried on every device that has one; zones names
// them.
func reachable(all []netip.AddrPort, zones []string) []netip.AddrPort {
	var list []netip.AddrPort
	for _, a := range all {
		if !needsZone(a.Addr()) || a.Addr().Zone() != "" {
			list = append(list, a)
			continue
		}
		for _, z := range zones {
			list = append(list, netip.AddrPortFrom(a.Addr().WithZone(z), a.Port()))
		}
	}
	return list
}
