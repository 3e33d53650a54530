package nethosts

import (
	"fmt"
	"slices"
)

// Unplug takes host i off network k: what it and the others send gets lost, and
// the others are not told. On a switch the host's own device loses its carrier,
// in a mesh all its links are cut.
func (h *Hosts) Unplug(k, i int) error { return h.plug(k, i, false) }

// Plug brings host i back to network k.
func (h *Hosts) Plug(k, i int) error { return h.plug(k, i, true) }

func (h *Hosts) plug(k, i int, up bool) error {
	nw := h.networks[k]
	if nw.Mesh == nil {
		state := map[bool]string{true: "up", false: "down"}[up]
		return h.middle.batch("ip", []string{fmt.Sprintf("link set dev %s %s", port(k, i), state)})
	}
	for j, rate := range nw.Mesh[i] {
		if j != i && rate != "0" {
			if err := h.neighbours(k, i, j, !up); err != nil {
				return err
			}
		}
	}
	return nil
}

// Split parts the switch of network k: each host reaches those of its own group
// only, and nobody is told. Hosts that are in no group stay together. Split
// without groups makes the switch whole again.
func (h *Hosts) Split(k int, groups ...[]int) error {
	if h.networks[k].Mesh != nil {
		return fmt.Errorf("nethosts: network %d is a mesh: Cut its links", k)
	}
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
		if slices.Contains(h.networks[k].Absent, i) {
			continue
		}
		bridge := fmt.Sprintf("br%d", k)
		if g := of[i]; g > 0 {
			bridge += fmt.Sprintf("g%d", g)
		}
		commands = append(commands, fmt.Sprintf("link set dev %s master %s", port(k, i), bridge))
	}
	return h.middle.batch("ip", commands)
}
