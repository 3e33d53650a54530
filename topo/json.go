package topo

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/strict"
)

// MaxGraphBytes bounds the JSON form of a Graph, in bytes.
const MaxGraphBytes = 256 << 20

// ParseGraph reads the JSON form of a Graph, as in a graph file, and validates
// it. data has at most MaxGraphBytes; ranks, links and ports are at most
// MaxRanks, MaxLinks and MaxPorts; rates are MinRate to MaxRate, latencies 0 or
// MinLatency to MaxLatency. The fields ranks and links, a, b and
// gbytes_per_second of a link, and all of a port must be there. Unknown fields,
// fields that stand twice, null, a second value behind the first and a text
// that ends too early are errors; an error names the element, as "links[3]",
// and the reason.
func ParseGraph(data []byte) (*Graph, error) {
	var g Graph
	if err := strict.UnmarshalJSON(data, &g, strict.JSONLimits{Bytes: MaxGraphBytes, Elements: MaxLinks}); err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return &g, nil
}

// AppendJSON appends the canonical JSON form of g to b: links and ports
// sorted, the lower rank of a link first, numbers in their shortest form. The
// same graph gives the same bytes, in whatever order it was put together. The
// error is for NaN and infinite numbers, which Validate refuses too.
func (g *Graph) AppendJSON(b []byte) ([]byte, error) {
	data, err := json.Marshal(g.Canonical())
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	return append(b, data...), nil
}

// Canonical returns g with links and ports sorted, the lower rank of a link first: the
// same for all graphs of one Digest. It may share memory with g.
func (g *Graph) Canonical() *Graph {
	if len(g.Ports) == 0 && len(g.Links) > 0 && slices.IsSortedFunc(g.Links, comparePairs) &&
		!slices.ContainsFunc(g.Links, func(l Link) bool { return l.A > l.B }) {
		return g
	}
	f := &Graph{Name: g.Name, Ranks: g.Ranks, Hosts: g.Hosts, Links: slices.Clone(g.Links), Ports: slices.Clone(g.Ports)}
	if f.Links == nil {
		f.Links = []Link{}
	}
	for i, l := range f.Links {
		f.Links[i].A, f.Links[i].B = min(l.A, l.B), max(l.A, l.B)
	}
	slices.SortStableFunc(f.Links, comparePairs)
	for i, p := range f.Ports {
		f.Ports[i].Ranks = slices.Sorted(slices.Values(p.Ranks))
	}
	slices.SortStableFunc(f.Ports, func(x, y Port) int { return cmp.Compare(x.Name, y.Name) })
	return f
}

// Digest is short for the canonical JSON form: 16 hexadecimal digits of its
// SHA-256. It tells graphs that differ by accident apart; it is no protection
// against somebody who means to deceive. g must be valid.
func (g *Graph) Digest() string {
	data, _ := g.AppendJSON(nil) // nothing for a graph that is not valid: still no other's digest
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
