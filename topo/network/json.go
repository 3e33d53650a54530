package network

import (
	"fmt"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
)

// MaxBytes bounds the JSON form of a Network.
const MaxBytes = 256 << 20

// Parse reads the JSON form of a Network and validates it. Unknown fields and more
// text behind it are errors.
func Parse(data []byte) (*Network, error) {
	n := new(Network)
	if err := strict.UnmarshalJSON(data, n, strict.JSONLimits{Bytes: MaxBytes, Elements: topo.MaxLinks}); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return n, n.Validate()
}

// Renumber returns n with its hosts in another order: host i is n's host
// order[i], which must be a permutation.
func (n *Network) Renumber(order []int) *Network {
	out := *n
	out.Hosts = make([]string, len(order))
	for i, h := range order {
		out.Hosts[i] = n.Hosts[h]
	}
	out.Graph = *n.Graph.Among(order)
	return &out
}
