//go:build linux

package nethosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Unplug disconnects host i from the switch of network k: packets from it and to it are lost, without any notice to the
// other hosts. The host's own device loses its carrier.
func (h *Hosts) Unplug(k, i int) error { return h.plug(k, i, "down") }

// Plug connects host i to network k again.
func (h *Hosts) Plug(k, i int) error { return h.plug(k, i, "up") }

func (h *Hosts) plug(k, i int, state string) error {
	return h.middle.batch("ip", []string{fmt.Sprintf("link set dev %s %s", port(k, i), state)})
}

// Split partitions the switch of network k: each host reaches only those of its own group, without any notice to the
// hosts. Hosts that are in no group stay together. Split without groups makes the switch whole again.
func (h *Hosts) Split(k int, groups ...[]int) error {
	of := make(map[int]int) // group, from 1
	for g, hosts := range groups {
		for _, i := range hosts {
			of[i] = g + 1
		}
	}
	var commands []string
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; h.parts[k] < len(groups); h.parts[k]++ {
		name := fmt.Sprintf("br%dg%d", k, h.parts[k]+1)
		commands = append(commands, "link add name "+name+" type bridge", "link set dev "+name+" up")
	}
	for i := range h.hosts {
		bridge := fmt.Sprintf("br%d", k)
		if g := of[i]; g > 0 {
			bridge += fmt.Sprintf("g%d", g)
		}
		commands = append(commands, fmt.Sprintf("link set dev %s master %s", port(k, i), bridge))
	}
	return h.middle.batch("ip", commands)
}

// Cut disconnects hosts i and j on the switch of network k: packets between them are lost, without any notice to
// either. Each then has a wrong hardware address of the other.
func (h *Hosts) Cut(k, i, j int) error {
	return errors.Join(h.mislead(k, i, j), h.mislead(k, j, i))
}

// Mute makes host i lose all packets that it sends on the switch of network k, without any notice: it has a wrong
// hardware address of every other.
func (h *Hosts) Mute(k, i int) error {
	var others []int
	for j := range h.hosts {
		if j != i {
			others = append(others, j)
		}
	}
	return h.mislead(k, i, others...)
}

// Unmute gives host i the right hardware addresses again.
func (h *Hosts) Unmute(k, i int) error {
	return h.hosts[i].batch("ip", []string{"neigh flush nud permanent dev " + h.Device(k)})
}

// mislead gives a host a wrong hardware address of others.
func (h *Hosts) mislead(k, host int, others ...int) error {
	var commands []string
	for _, to := range others {
		for _, at := range []netip.Addr{h.AddrIn(k, to), h.Addr6In(k, to)} {
			commands = append(commands, fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:01 dev %s nud permanent", at,
				h.Device(k)))
		}
	}
	return h.hosts[host].batch("ip", commands)
}

// SetRate changes the rate of host i on the switch of network k, which is shaped, in both directions.
func (h *Hosts) SetRate(k, i int, rate string) error {
	of := [2]*plan{{ns: h.hosts[i]}, {ns: h.middle}}
	for p, dev := range map[*plan]string{of[0]: h.Device(k), of[1]: port(k, i)} {
		p.shape(dev, rate)
		for c := range p.tc {
			p.tc[c] = strings.Replace(p.tc[c], "add", "change", 1)
		}
		if err := p.ns.batch("tc", p.tc); err != nil {
			return err
		}
	}
	return nil
}
