package iface

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maxFacts bounds the names and values of Facts, in bytes.
const maxFacts = 4096

// Facts returns what the system says of this host that the rates of its network
// hang on, by name: which boot and which network namespace this is, and of every
// device that may carry something to other hosts its index, hardware address,
// MTU, speed, how often its carrier came or went, and how it queues and shapes.
// Those are the devices that have one of the offered addresses, and all that are
// up and neither tunnels, nor loopbacks, nor for containers of this host. Facts
// reads, and sends nothing; what the system does not tell is left out. As long as
// nothing of that changes, two calls return the same.
func Facts(offered []netip.Addr) map[string]string {
	facts := make(map[string]string)
	put := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			facts[name] = value
		}
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	put("boot", string(boot))
	put("network namespace", namespaceID())
	all, _ := net.Interfaces()
	inside := heardOfDevices()
	for i := range all {
		n := &all[i]
		d, err := readDevice(n)
		if err != nil || !d.counts(n.Flags, offered) {
			continue
		}
		put(n.Name+" index", strconv.Itoa(n.Index))
		put(n.Name+" hardware address", n.HardwareAddr.String())
		put(n.Name+" MTU", strconv.Itoa(n.MTU))
		if d.Speed > 0 {
			put(n.Name+" speed", strconv.Itoa(d.Speed)+" Mbit/s")
		}
		put(n.Name+" changes of carrier", inside[n.Index].carrier)
		put(n.Name+" queueing", inside[n.Index].queues())
	}
	return short(facts)
}

// counts tells devices that may carry something to other hosts.
func (d *Device) counts(flags net.Flags, offered []netip.Addr) bool {
	for _, p := range d.Addrs {
		ip := p.Addr()
		if slices.ContainsFunc(offered, func(a netip.Addr) bool { return a.WithZone("").Unmap() == ip }) {
			return true
		}
	}
	return flags&net.FlagUp != 0 && d.Kind < Tunnel
}

// short makes one fact of all devices where there are very many.
func short(facts map[string]string) map[string]string {
	total := 0
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(facts)) {
		total += len(name) + len(facts[name])
		if name != "boot" && name != "network namespace" {
			fmt.Fprintf(h, "%q %q\n", name, facts[name])
		}
	}
	if total <= maxFacts {
		return facts
	}
	maps.DeleteFunc(facts, func(name, _ string) bool { return name != "boot" && name != "network namespace" })
	facts["devices"] = fmt.Sprintf("%x", h.Sum(nil)[:8])
	return facts
}

// heardOf is what the system says of a device besides what package net does.
type heardOf struct {
	carrier  string         // how often it changed
	queueing map[string]int // its disciplines and classes, and how many of each
}

func (h heardOf) queues() string {
	var all []string
	for _, text := range slices.Sorted(maps.Keys(h.queueing)) {
		if n := h.queueing[text]; n > 1 {
			text = fmt.Sprintf("%d of %s", n, text)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// namespaceLink names the network namespace of this process, as far as its
// inode's number does: a later namespace may get the same.
func namespaceLink() string {
	text, _ := os.Readlink("/proc/self/ns/net")
	return text
}

// soNetnsCookie is SO_NETNS_COOKIE of Linux 5.14.
const soNetnsCookie = 71

// namespaceID tells the network namespace of this process from all others since
// the system's start.
func namespaceID() string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return namespaceLink()
	}
	defer syscall.Close(fd)
	v, err := syscall.GetsockoptIPMreq(fd, syscall.SOL_SOCKET, soNetnsCookie) // any option of 8 bytes
	if err != nil {
		return namespaceLink()
	}
	return fmt.Sprintf("%x", binary.NativeEndian.Uint64(append(v.Multiaddr[:], v.Interface[:]...)))
}

// Of include/uapi/linux/if_link.h and rtnetlink.h.
const (
	iflaCarrierChanges = 35
	tcaKind            = 1
	tcaOptions         = 2
	ifinfoLen          = 16
	tcmsgLen           = 20
)

// Disciplines whose options say a rate and nothing that counts packets; those
// with classes have their rates there.
var (
	shaping = []string{"tbf", "netem", "cake", "fq"}
	classes = []string{"htb", "hfsc"}
)

// heardOfDevices asks the system for all devices, by index.
func heardOfDevices() map[int]heardOf {
	all := make(map[int]heardOf)
	for _, m := range dump(syscall.RTM_GETLINK, make([]byte, ifinfoLen)) {
		if len(m) < ifinfoLen {
			continue
		}
		if v := attributes(m[ifinfoLen:])[iflaCarrierChanges]; len(v) == 4 {
			all[indexIn(m)] = heardOf{carrier: strconv.Itoa(int(binary.NativeEndian.Uint32(v)))}
		}
	}
	for _, m := range dump(syscall.RTM_GETQDISC, make([]byte, tcmsgLen)) {
		kind := queueing(all, m, shaping, 0)
		if !slices.Contains(classes, kind) {
			continue
		}
		of := make([]byte, tcmsgLen)
		copy(of[4:8], m[4:8]) // its device
		copy(of[12:16], m[8:12])
		for _, class := range dump(syscall.RTM_GETTCLASS, of) {
			queueing(all, class, classes, 8)
		}
	}
	return all
}

// indexIn is the index of the device in an ifinfomsg or a tcmsg.
func indexIn(m []byte) int { return int(int32(binary.NativeEndian.Uint32(m[4:]))) }

// queueing adds a discipline or a class, with a digest of its options where its
// kind is one of these, to its device. Of its own number and its parent's it
// takes so many bytes: classes have them from the user. It returns the kind.
func queueing(all map[int]heardOf, m []byte, digested []string, number int) string {
	if len(m) < tcmsgLen {
		return ""
	}
	attrs := attributes(m[tcmsgLen:])
	kind := strings.TrimRight(string(attrs[tcaKind]), "\x00")
	text := kind
	if options := attrs[tcaOptions]; slices.Contains(digested, kind) && len(options) > 0 {
		text += fmt.Sprintf(" %x", sha256.Sum256(slices.Concat(m[8:8+number], options)))[:9]
	}
	d := all[indexIn(m)]
	if d.queueing == nil {
		d.queueing = make(map[string]int)
	}
	d.queueing[text]++
	all[indexIn(m)] = d
	return kind
}

// attributes takes netlink attributes apart, by kind.
func attributes(b []byte) map[uint16][]byte {
	all := make(map[uint16][]byte)
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		all[binary.NativeEndian.Uint16(b[2:])&0x3fff] = b[4:n]
		b = b[min((n+3)&^3, len(b)):]
	}
	return all
}

// maxDump bounds what the system may say in one go, in messages.
const maxDump = 1 << 16

// dump asks the kernel for all of a kind and returns the messages' bodies: those
// that came before something went wrong.
func dump(kind uint16, body []byte) (all [][]byte) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	defer syscall.Close(fd)
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO,
		&syscall.Timeval{Sec: 1}); err != nil {
		return nil
	}
	ask := make([]byte, syscall.NLMSG_HDRLEN, syscall.NLMSG_HDRLEN+len(body))
	binary.NativeEndian.PutUint32(ask, uint32(cap(ask)))
	binary.NativeEndian.PutUint16(ask[4:], kind)
	binary.NativeEndian.PutUint16(ask[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	if err := syscall.Sendto(fd, append(ask, body...), 0,
		&syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return nil
	}
	buf := make([]byte, 64<<10)
	for len(all) < maxDump {
		n, _, err := syscall.Recvfrom(fd, buf, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return all
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return all
		}
		for _, m := range messages {
			if m.Header.Type == syscall.NLMSG_DONE || m.Header.Type == syscall.NLMSG_ERROR {
				return all
			}
			all = append(all, slices.Clone(m.Data))
		}
	}
	return all
}
