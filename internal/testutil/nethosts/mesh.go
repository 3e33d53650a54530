//go:build linux

package nethosts

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// wireMesh makes the links of network k.
func (h *Hosts) wireMesh(k int, hosts []*plan) {
	rates, n := h.networks[k].Mesh, h.Len()
	for i := range n {
		for j := i + 1; j < n; j++ {
			if rates[i][j] == "0" {
				continue
			}
			hosts[i].pair(fmt.Sprint("to", j), fmt.Sprint("to", i), hosts[j])
			// The addresses of the two ends, which differ from the hosts' own.
			net := uint32(10<<24 + 80<<16 + 4*((k*n+i)*n+j))
			for end, of := range [2][2]int{{i, j}, {j, i}} {
				from, to := of[0], of[1]
				p, dev := hosts[from], fmt.Sprint("to", to)
				p.link("addr add %s/30 dev %s", address(net+1+uint32(end)), dev)
				p.link("link set dev %s up", dev)
				p.link("route add %s/32 via %s dev %s src %s congctl cubic", h.AddrIn(k, to), address(net+2-uint32(end)), dev,
					h.AddrIn(k, from))
				p.shape(dev, rates[from][to])
			}
		}
	}
}

func address(number uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, number)))
}
