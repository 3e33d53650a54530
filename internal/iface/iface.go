// Package iface decides which addresses of a host its ranks offer to other hosts, and in which order. Choose is a pure
// function over a list of network devices; Read returns the list of this host. The package opens no socket. Package
// rank and the launcher import it.
package iface

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a device, as far as it matters for reaching other hosts. A smaller kind is the better one.
type Kind uint8

// The kinds of devices.
const (
	InfiniBand Kind = iota // IP over InfiniBand
	Ethernet               // a card, or an equivalent: a bond, a VLAN
	Unknown                // no known drawback, such as a container's eth0
	Tunnel                 // a VPN or another tunnel
	Bridge                 // a bridge br-NAME: the host's own network, or one of containers
	Container              // a bridge or pair for containers and virtual machines of this host
	Loopback
)

// Device is one network device of a host.
type Device struct {
	Name  string
	Kind  Kind
	Up    bool           // switched on, and with a carrier
	Speed int            // Mbit/s, 0 if the system does not report it
	MTU   int            // maximum packet size in bytes
	Addrs []netip.Prefix // its addresses, each with its network
}

// Address is one address of a host.
type Address struct {
	IP     netip.Addr // with a zone if it is valid on one link only (fe80::1%eth0)
	Device string
	Kind   Kind
	Speed  int    // of the device, Mbit/s; 0 if the system does not report it
	MTU    int    // of the device
	Why    string // reason for its position in the offer, or for its exclusion
}

// String returns the address with its device and reason.
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

// List returns a list of devices and their addresses for messages: "eth0 10.0.0.3/24, lo 127.0.0.1/8, eth1 (down)".
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

// Read returns the devices of this host, in the system's order.
func Read() ([]Device, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("network devices of this host: %w", err)
	}
	var devices []Device
	for i := range all {
		d, err := readDevice(&all[i])
		if err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func readDevice(n *net.Interface) (Device, error) {
	d := Device{Name: n.Name, MTU: n.MTU, Up: n.Flags&net.FlagUp != 0 && n.Flags&net.FlagRunning != 0}
	addrs, err := n.Addrs()
	if err != nil {
		return d, fmt.Errorf("addresses of %s: %w", n.Name, err)
	}
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(ipnet.IP)
		ones, _ := ipnet.Mask.Size()
		if ip = ip.Unmap(); ok && ones <= ip.BitLen() {
			d.Addrs = append(d.Addrs, netip.PrefixFrom(ip, ones))
		}
	}
	f := facts{loopback: n.Flags&net.FlagLoopback != 0, pointToPoint: n.Flags&net.FlagPointToPoint != 0}
	f.fromSys(filepath.Join("/sys/class/net", n.Name), n)
	d.Kind, d.Speed = kindOf(n.Name, f), f.speed
	return d, nil
}

// facts holds the system's information about a device's kind.
type facts struct {
	loopback, pointToPoint bool
	hardware               bool   // the device is on a bus
	tunTap                 bool   // the other end is a program
	hardwareType           int    // ARPHRD_..., 0 when unknown
	devType                string // DEVTYPE, such as "wireguard"
	speed                  int    // Mbit/s
}

// fromSys reads the attributes in the folder of a device. A process in its own network namespace may still see the /sys
// of another one, so the attributes are ignored unless index and hardware address are those of n.
func (f *facts) fromSys(dir string, n *net.Interface) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "" // also if the device does not know the value, such as its speed
		}
		return strings.TrimSpace(string(text))
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	same := strings.EqualFold(read("address"), n.HardwareAddr.String()) || len(n.HardwareAddr) == 0
	if read("ifindex") != strconv.Itoa(n.Index) || !same {
		return
	}
	f.hardware, f.tunTap = exists("device"), exists("tun_flags")
	f.hardwareType, _ = strconv.Atoi(read("type"))
	for line := range strings.Lines(read("uevent")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVTYPE="); ok {
			f.devType = value
		}
	}
	if speed, err := strconv.Atoi(read("speed")); err == nil && speed > 0 {
		f.speed = speed
	}
}

// Hardware types of the kernel (include/uapi/linux/if_arp.h).
const (
	typeInfiniBand = 32
	typePPP        = 512
	typeTunnel     = 768
	typeTunnel6    = 769
	typeSIT        = 776
	typeGRE        = 778
	typeGRE6       = 823
	typeNone       = 65534
)

// Beginnings of the names that container systems and VPNs give to devices.
var (
	containerNames = []string{
		"docker", "virbr", "veth", "cni", "flannel", "cali", "cilium", "lxc", "lxd", "podman", "kube",
		"nodelocaldns", "vnet", "vmnet", "vboxnet", "weave", "dummy", "ovs-", "antrea",
	}
	tunnelNames = []string{
		"tun", "tap", "wg", "tailscale", "zt", "ppp", "ipsec", "vti", "nebula", "utun", "gre", "sit", "ipip", "ip6tnl",
		"nordlynx",
	}
)

// dockerBridge is the name of the bridge of a network that a user of Docker has made.
var dockerBridge = regexp.MustCompile(`^br-[0-9a-f]{8,12}$`)

// kindOf returns the kind of a device. A bridge that is not known to belong to a container system may well carry the
// host's own network.
func kindOf(name string, f facts) Kind {
	switch {
	case f.loopback:
		return Loopback
	case f.hardwareType == typeInfiniBand:
		return InfiniBand
	case f.hardware:
		return Ethernet
	case begins(name, containerNames), dockerBridge.MatchString(name):
		return Container
	case strings.HasPrefix(name, "br-"):
		return Bridge
	case f.tunTap, f.pointToPoint, begins(name, tunnelNames), isTunnel(f):
		return Tunnel
	case f.devType == "bond", f.devType == "vlan", f.devType == "wlan", begins(name, []string{"bond", "team"}):
		return Ethernet
	case begins(name, []string{"ib"}):
		return InfiniBand
	}
	return Unknown
}

func isTunnel(f facts) bool {
	switch f.hardwareType {
	case typePPP, typeTunnel, typeTunnel6, typeSIT, typeGRE, typeGRE6, typeNone:
		return true
	}
	return f.devType == "wireguard" || f.devType == "vxlan" || f.devType == "geneve"
}

func begins(name string, with []string) bool {
	return slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(name, w) })
}
