package nethosts

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// edge is one end of a link of a mesh, at host from.
type edge struct {
	from, to      int
	dev           string
	mine, other   netip.Addr // of the two ends; the host's own addresses are others
	mine6, other6 netip.Addr
}

// edges returns both ends of every link of network k, one behind the other.
func (h *Hosts) edges(k int) []edge {
	var all []edge
	n := h.Len()
	for i, row := range h.networks[k].Mesh {
		for j := i + 1; j < n; j++ {
			if row[j] == "0" {
				continue
			}
			number := uint32((k*n+i)*n + j)
			four := func(end uint32) netip.Addr {
				return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24+80<<16+4*number+end)))
			}
			six := func(end byte) netip.Addr {
				a := [16]byte{0: 0xfd, 1: 0x78, 15: end}
				binary.BigEndian.PutUint32(a[8:], number)
				return netip.AddrFrom16(a)
			}
			all = append(all,
				edge{i, j, fmt.Sprint("to", j), four(1), four(2), six(1), six(2)},
				edge{j, i, fmt.Sprint("to", i), four(2), four(1), six(2), six(1)})
		}
	}
	return all
}

// wireMesh makes the links of network k.
func (h *Hosts) wireMesh(k int, hosts []*plan) {
	edges := h.edges(k)
	for i := 0; i < len(edges); i += 2 {
		a, b := edges[i], edges[i+1]
		hosts[a.from].pair(a.dev, b.dev, hosts[b.from])
	}
	for _, e := range edges {
		p := hosts[e.from]
		p.link("addr add %s/30 dev %s", e.mine, e.dev)
		p.link("addr add %s/112 dev %s nodad", e.mine6, e.dev)
		p.link("link set dev %s up", e.dev)
		p.link("route add %s/32 via %s dev %s src %s congctl cubic", h.AddrIn(k, e.to), e.other, e.dev, h.AddrIn(k, e.from))
		p.link("route add %s/128 via %s dev %s src %s congctl cubic", h.Addr6In(k, e.to), e.other6, e.dev,
			h.Addr6In(k, e.from))
		p.shape(e.dev, h.networks[k].Mesh[e.from][e.to])
	}
}

// Cut cuts the link between hosts i and j of mesh k: what they send gets lost,
// and neither is told.
func (h *Hosts) Cut(k, i, j int) error { return h.neighbours(k, i, j, true) }

// Mend brings the link between hosts i and j of mesh k back.
func (h *Hosts) Mend(k, i, j int) error { return h.neighbours(k, i, j, false) }

// neighbours tells both ends a wrong hardware address of the other, or forgets
// it. (A device that is set down would lose its routes, and say so.)
func (h *Hosts) neighbours(k, i, j int, cut bool) error {
	found := false
	for _, e := range h.edges(k) {
		if (e.from != i || e.to != j) && (e.from != j || e.to != i) {
			continue
		}
		found = true
		var commands []string
		for _, a := range []netip.Addr{e.other, e.other6} {
			if cut {
				commands = append(commands, fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:01 dev %s nud permanent", a, e.dev))
			} else {
				commands = append(commands, fmt.Sprintf("neigh del %s dev %s", a, e.dev))
			}
		}
		if err := h.hosts[e.from].batch("ip", commands); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("nethosts: network %d has no link between hosts %d and %d", k, i, j)
	}
	return nil
}
