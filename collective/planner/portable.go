package planner

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
)

// portable is what a Planner is made of.
type portable struct {
	Graph   *topo.Graph
	Machine Machine
	Options string
}

// Limits of the portable form of a Planner.
const (
	maxPortableLinks = 1 << 13
	maxPortable      = 8 << 20 // bytes of its JSON
)

// Portable returns a form of p for other processes, which make the same plans of it, but for a plan that was given. It
// is nil for a graph with too many links.
func (p *Planner) Portable() []byte {
	g := p.Site.full()
	if len(g.Links) > maxPortableLinks {
		return nil
	}
	m := p.Site.machine
	m.CoreHosts = append([]int{}, m.CoreHosts...) // not null
	data, err := json.Marshal(portable{g.Canonical(), m, p.Site.options.String()})
	if err != nil || len(data) > maxPortable {
		return nil
	}
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.DefaultCompression) // the level is valid
	_, _ = w.Write(data)                                  // a Buffer takes all
	_ = w.Close()
	return b.Bytes()
}

// FromPortable makes the Planner of a portable form, and returns its graph.
func FromPortable(data []byte) (*Planner, *topo.Graph, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxPortable+1))
	if err != nil {
		return nil, nil, fmt.Errorf("a planner from another process: %w", err)
	}
	var f portable
	err = strict.UnmarshalJSON(text, &f, strict.JSONLimits{Bytes: maxPortable, Elements: topo.MaxRanks})
	if err == nil {
		err = f.Graph.Validate()
	}
	if err == nil {
		err = f.Machine.check(f.Graph.Ranks)
	}
	if len(f.Machine.CoreHosts) == 0 {
		f.Machine.CoreHosts = nil
	}
	var o Options
	if err == nil {
		o, err = ParseOptions(f.Options)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("a planner from another process: %w", err)
	}
	p, err := New(f.Graph, f.Machine, o)
	return p, f.Graph, err
}

// check reports an error if m, from another process, is that of no graph of this number of ranks.
func (m *Machine) check(ranks int) error {
	const most = 1 << 30
	if len(m.CoreHosts) != 0 && len(m.CoreHosts) != ranks || min(m.Cores, m.Slots, m.SlotBytes) < 0 ||
		m.StagingBytes < 0 || m.Cores > topo.MaxRanks || m.Slots > topo.MaxRanks || m.SlotBytes > most ||
		m.StagingBytes > most<<10 {
		return fmt.Errorf("a machine of %d cores, %d slots of %d bytes", m.Cores, m.Slots, m.SlotBytes)
	}
	return nil
}
