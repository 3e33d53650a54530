package network

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/strictjson"
	"github.com/treerun/treerun/topo"
)

// MaxBytes bounds the JSON form of a Network.
const MaxBytes = 256 << 20

// version counts the changes of the JSON form, and of how networks are measured
// and inferred: what an earlier one has kept is no good.
const version = 2

type file struct {
	Version  int      `json:"version"`
	Probe    string   `json:"probe"`
	Measured int64    `json:"measured_at"` // seconds since 1970
	Hosts    []string `json:"hosts"`
	Pairs    []Pair   `json:"pairs,omitempty"`
	Ports    []Port   `json:"ports,omitempty"`
}

// AppendJSON appends the JSON form of n, which must be valid: the same network
// is the same bytes.
func (n *Network) AppendJSON(b []byte) ([]byte, error) {
	f := file{Version: version, Probe: n.Probe, Measured: n.At, Hosts: n.Hosts, Pairs: n.Pairs, Ports: n.Ports}
	data, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return append(b, data...), nil
}

// Parse reads what AppendJSON wrote, and validates it. Unknown fields and more
// text behind it are errors.
func Parse(data []byte) (*Network, error) {
	var f file
	if err := strictjson.Unmarshal(data, &f, strictjson.Limits{Bytes: MaxBytes, Elements: topo.MaxLinks}); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("network: version %d of the file, want %d", f.Version, version)
	}
	n := &Network{Hosts: f.Hosts, Pairs: f.Pairs, Ports: f.Ports, Probe: f.Probe, At: f.Measured}
	if _, err := ParseEffort(n.Probe); err != nil {
		return nil, fmt.Errorf("network: probe %w", err)
	}
	for i, h := range n.Hosts {
		if len(h) > maxName {
			return nil, fmt.Errorf("network: hosts[%d] has a name of %d bytes", i, len(h))
		}
	}
	return n, n.Validate()
}

// maxName is the length of a host's name in a file, in bytes.
const maxName = 255

// Renumber returns n with its hosts in another order: host i is n's host
// order[i], which must be a permutation.
func (n *Network) Renumber(order []int) *Network {
	place := make([]int, len(order))
	for i, h := range order {
		place[h] = i
	}
	out := &Network{Hosts: make([]string, len(order)), Pairs: slices.Clone(n.Pairs), Ports: slices.Clone(n.Ports), Probe: n.Probe, At: n.At}
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
	return out
}
