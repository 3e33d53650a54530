package iface

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
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
