package topo

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

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

// AppendJSON appends the canonical JSON form of g to b: links and ports sorted, the lower rank of a link first, numbers
// in their shortest form. The same graph gives the same bytes, whatever the order of its parts in g. The error is for
// NaN and infinite numbers, which Validate refuses too.
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
	if len(g.Ports) == 0 && len(g.Links) > 0 && g.isCanonical() {
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

// Digest is short for the canonical JSON form: 16 hexadecimal digits of its SHA-256. It distinguishes graphs that
// differ by accident; it is no protection against intent to deceive. g must be valid.
func (g *Graph) Digest() string {
	data, _ := g.AppendJSON(nil) // nothing for a graph that is not valid: still no other's digest
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// The graphs of well-known machines, to plan and to simulate on: their links and ports as data sheets
// and published descriptions give them.
//
// The graphs are JSON files, built in, as the command line reads them. Rates are those
// of the hardware in one direction, before any protocol takes its part. Latencies are
// not from data sheets: they are round figures of the order that programs see (1.5 us
// over NVLink, 2 us through a switch of NVLinks, 5 to 9 us over PCIe and sockets, 14 us
// over InfiniBand, 30 us over Ethernet and TCP).
//
// In clusters of switched GPUs the port of a GPU counts its card, too. Between more than two hosts a card has several
// links: there a port per host holds the sum of its cards, as no port can hold one card without the GPU's other links.
//
//go:embed machines/*.json
var machineFiles embed.FS

// MachineDetails has a paragraph per machine, for people: name, ranks, and a full description with the source of the
// figures, in lines of at most 80 characters.
//
//go:embed machines/machines.txt
var MachineDetails string

// Machines returns the names of all machines, sorted.
func Machines() (names []string) {
	entries, _ := machineFiles.ReadDir("machines") // they are built in
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
	}
	slices.Sort(names)
	return names
}

// Machine returns the graph of a machine, a new one with every call, its links
// marked as declared. It reports whether there is a machine of that name.
func Machine(name string) (*Graph, bool) {
	data, err := machineFiles.ReadFile("machines/" + name + ".json")
	if err != nil {
		return nil, false
	}
	g, err := ParseGraph(data)
	if err != nil {
		panic(fmt.Sprintf("topo: machine %s: %v", name, err))
	}
	for i := range g.Links {
		g.Links[i].Source = Declared
	}
	return g, true
}

// AboutMachine describes a machine and the source of its figures, for people; empty when there is none of that name.
func AboutMachine(name string) string {
	_, text, _ := strings.Cut("\n"+MachineDetails, "\n"+name+", ")
	_, text, _ = strings.Cut(text, "\n") // behind the number of ranks
	var words []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, " ") {
			break
		}
		words = append(words, strings.Fields(line)...)
	}
	return strings.Join(words, " ")
}
