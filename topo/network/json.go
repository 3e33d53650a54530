package network

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/strictjson"
	"github.com/treerun/treerun/topo"
)

// MaxBytes bounds the JSON form of a Network.
const MaxBytes = 256 << 20

// Parse reads the JSON form of a Network and validates it. Unknown fields and more
// text behind it are errors.
func Parse(data []byte) (*Network, error) {
	n := new(Network)
	if err := strictjson.Unmarshal(data, n, strictjson.Limits{Bytes: MaxBytes, Elements: topo.MaxLinks}); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return n, n.Validate()
}

// Renumber returns n with its hosts in another order: host i is n's host
// order[i], which must be a permutation.
func (n *Network) Renumber(order []int) *Network {
	place := make([]int, len(order))
	for i, h := range order {
		place[h] = i
	}
	out := *n
	out.Hosts, out.Pairs, out.Ports = make([]string, len(order)), slices.Clone(n.Pairs), slices.Clone(n.Ports)
	for i, h := range order {
		out.Hosts[i] = n.Hosts[h]
	}
	for _, p := range n.Pairs {
		if p.A, p.B = place[p.A], place[p.B]; p.A > p.B {
			p.A, p.B, p.Out, p.Back = p.B, p.A, p.Back, p.Out
		}
		out.Pairs[index(len(order), p.A, p.B)] = p
	}
	for i := range out.Ports {
		out.Ports[i].Host = place[out.Ports[i].Host]
	}
	slices.SortFunc(out.Ports, func(a, b Port) int { return a.Host - b.Host })
	return &out
}
