package iface

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxFacts bounds the names and values of Facts, in bytes.
const maxFacts = 4096

// Facts returns the system's information about this host that determines the rates of its network, by name: the boot,
// the network namespace and, of every device that may carry data to other hosts, its index, hardware address, MTU,
// speed, number of carrier changes, queueing and traffic shaping. Such devices are those that have one of the offered
// addresses, and all that are up and neither tunnels, nor loopbacks, nor for containers of this host. Facts only reads,
// and sends no packets. Information that the system does not report is left out. Two calls return the same as long as
// none of it changes.
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
	carriers, queues := queryKernel()
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
		put(n.Name+" changes of carrier", carriers[n.Index])
		if kind, _, found := strings.Cut(string(queues[n.Index]), "\x00"); found { // kind of the first queue
			put(n.Name+" queueing", kind+" "+digest(queues[n.Index]))
		}
	}
	return short(facts)
}

// counts reports whether a device may carry data to other hosts.
func (d *Device) counts(flags net.Flags, offered []netip.Addr) bool {
	for _, p := range d.Addrs {
		ip := p.Addr()
		if slices.ContainsFunc(offered, func(a netip.Addr) bool { return a.WithZone("").Unmap() == ip }) {
			return true
		}
	}
	return flags&net.FlagUp != 0 && d.Kind < Tunnel
}

// short replaces very many facts by one digest of the devices.
func short(facts map[string]string) map[string]string {
	text := fmt.Sprintf("%q", facts) // by name
	if len(text) <= maxFacts {
		return facts
	}
	return map[string]string{"boot": facts["boot"], "network namespace": facts["network namespace"],
		"devices": digest([]byte(text))}
}

// digest returns a short hash of a text.
func digest(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text))[:16] }

// namespaceID returns an ID that distinguishes the network namespace of this process from all others since the system's
// start; before Linux 5.14 only from those that currently exist, by its inode.
func namespaceID() string {
	inode, _ := os.Readlink("/proc/self/ns/net")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return inode
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return inode
	}
	return strconv.FormatUint(cookie, 16)
}

// Of include/uapi/linux/rtnetlink.h.
const (
	tcaKind     = 1
	tcaOptions  = 2
	sizeofTcMsg = 20
)

// Disciplines whose options contain a rate and no packet counters; those with classes have their rates in the classes.
var (
	shaping = []string{"tbf", "netem", "cake", "fq"}
	classes = []string{"htb", "hfsc"}
)

// queryKernel returns, by index of a device, the number of its carrier changes, and the reported facts of its queueing
// disciplines and their classes, in the kernel's order.
func queryKernel() (carriers map[int]string, queues map[int][]byte) {
	carriers, queues = make(map[int]string), make(map[int][]byte)
	for _, m := range dump(unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg)) {
		if v := attributes(m[unix.SizeofIfInfomsg:])[unix.IFLA_CARRIER_CHANGES]; len(v) == 4 {
			carriers[indexIn(m)] = strconv.Itoa(int(binary.NativeEndian.Uint32(v)))
		}
	}
	for _, m := range dump(unix.RTM_GETQDISC, make([]byte, sizeofTcMsg)) {
		attrs := attributes(m[sizeofTcMsg:])
		attr, kind := attrs[tcaKind], strings.TrimRight(string(attrs[tcaKind]), "\x00")
		if slices.Contains(shaping, kind) {
			attr = slices.Concat(attr, attrs[tcaOptions])
		}
		if slices.Contains(classes, kind) {
			of := make([]byte, sizeofTcMsg)
			copy(of[4:8], m[4:8]) // its device
			copy(of[12:16], m[8:12])
			for _, class := range dump(unix.RTM_GETTCLASS, of) {
				attr = slices.Concat(attr, class[8:16], attributes(class[sizeofTcMsg:])[tcaOptions]) // with their numbers
			}
		}
		queues[indexIn(m)] = append(queues[indexIn(m)], attr...)
	}
	return carriers, queues
}

// indexIn returns the index of the device in an ifinfomsg or a tcmsg.
func indexIn(m []byte) int { return int(int32(binary.NativeEndian.Uint32(m[4:]))) }

// attributes splits netlink attributes by kind.
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

// maxDump is the maximum number of messages in one dump of the kernel.
const maxDump = 1 << 16

// dump requests all objects of a kind from the kernel and returns the bodies of the messages, none shorter than that of
// the request. After an error it returns the messages before it.
func dump(kind uint16, body []byte) (all [][]byte) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	kernel := os.NewFile(uintptr(fd), "netlink")
	defer kernel.Close()
	ask := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	ask = binary.NativeEndian.AppendUint16(ask, kind)
	ask = binary.NativeEndian.AppendUint16(ask, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask = append(append(ask, make([]byte, 8)...), body...) // without a number and a port
	if err = kernel.SetDeadline(time.Now().Add(time.Second)); err == nil {
		_, err = kernel.Write(ask)
	}
	buf := make([]byte, 64<<10)
	for err == nil && len(all) < maxDump {
		n, _ := kernel.Read(buf) // 0 after an error
		var messages []syscall.NetlinkMessage
		if messages, err = syscall.ParseNetlinkMessage(buf[:n]); len(messages) == 0 {
			break
		}
		for _, m := range messages {
			if m.Header.Type == unix.NLMSG_DONE || m.Header.Type == unix.NLMSG_ERROR {
				return all
			}
			if len(m.Data) >= len(body) {
				all = append(all, slices.Clone(m.Data))
			}
		}
	}
	return all
}
