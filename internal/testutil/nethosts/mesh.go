package nethosts

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// edge is one end of a link of a mesh, at host from.
type edge struct {
	from, to    int
	dev         string
	mine, other netip.Addr // of the two ends; the host's own addresses are others
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
			address := func(end int) netip.Addr {
				number := 10<<24 + 80<<16 + 4*((k*n+i)*n+j) + end
				return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(number))))
			}
			all = append(all,
				edge{i, j, fmt.Sprint("to", j), address(1), address(2)},
				edge{j, i, fmt.Sprint("to", i), address(2), address(1)})
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
		p.link("link set dev %s up", e.dev)
		p.link("route add %s/32 via %s dev %s src %s congctl cubic", h.AddrIn(k, e.to), e.other, e.dev, h.AddrIn(k, e.from))
		p.shape(e.dev, h.networks[k].Mesh[e.from][e.to])
	}
}

// Cut cuts the link between hosts i and j of mesh k: what they send gets lost, and neither is
// told. Both ends have a wrong hardware address of the other then. (A device that is set down
// would lose its routes, and say so.)
func (h *Hosts) Cut(k, i, j int) error {
	found := false
	for _, e := range h.edges(k) {
		if e.from == i && e.to == j || e.from == j && e.to == i {
			found = true
			if err := h.hosts[e.from].batch("ip", []string{fmt.Sprintf(
				"neigh replace %s lladdr 02:00:00:00:00:01 dev %s nud permanent", e.other, e.dev)}); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("nethosts: network %d has no link between hosts %d and %d", k, i, j)
	}
	return nil
}
