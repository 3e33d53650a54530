package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// HostsWorld is the ranks of a job on one host or several, as *rank.World is.
type HostsWorld interface {
	World
	HostOf(rank int) int
}

// OnHosts lets the ranks of every host measure, all hosts at the same time, and
// returns what each has found, by number of the host: the same on all ranks. It is
// Measure otherwise.
func OnHosts(ctx context.Context, w HostsWorld, dev *cuda.Device, o Options) ([]HostResult, error) {
	h := newHostWorld(w)
	r, err := Measure(ctx, h, dev, o)
	if meetErr := h.finish(ctx); meetErr != nil {
		return nil, fmt.Errorf("measure peer links: %w", errors.Join(err, meetErr))
	}
	m := &meter{ctx: ctx, w: w}
	var mine hostResult
	if err == nil && h.Rank() == 0 {
		mine, err = packed(h.members, r)
	}
	all, err := swap(m, mine, err)
	if err != nil {
		return nil, err
	}
	var list []HostResult
	for rank, p := range all {
		if len(p.Ranks) == 0 {
			continue
		}
		of, err := p.open()
		if err == nil && !slices.Equal(p.Ranks, membersOf(w, w.HostOf(rank))) {
			err = fmt.Errorf("ranks %v are not those of its host", p.Ranks)
		}
		if err != nil {
			return nil, fmt.Errorf("measure peer links: what rank %d says: %w", rank, err)
		}
		list = append(list, *of)
	}
	return list, nil
}

// HostResult is what was found on one host.
type HostResult struct {
	Ranks []int // of the host, ascending
	Result
}

// DroppedLines returns a line for each link of the host that is advertised and not
// used, for people.
func (h *HostResult) DroppedLines() []string {
	var lines []string
	for _, d := range h.Dropped {
		lines = append(lines, d.Line(h.Ranks, h.Devices))
	}
	return lines
}

// Join returns the graph of all ranks: ranks, which knows the network, and within
// the hosts what was found. A full one has a link for every pair of a host, through
// the host's memory where there is no better one, as plans want it that let each rank
// send to each.
func Join(ranks *topo.Graph, hosts []HostResult, full bool) (*topo.Graph, error) {
	var parts []gpu.Part
	for _, h := range hosts {
		g := h.Graph
		if full {
			var err error
			if g, err = gpu.Fill(g, h.Machine, h.Devices); err != nil {
				return nil, fmt.Errorf("measure peer links: %w", err)
			}
		}
		parts = append(parts, gpu.Part{Ranks: h.Ranks, Graph: g})
	}
	return gpu.Join(ranks, parts)
}

// hostResult is a HostResult as it travels.
type hostResult struct {
	Ranks   []int
	Machine *gpu.Machine
	Devices []string
	Graph   json.RawMessage
	Found   []gpu.Finding
	Dropped []gpu.Drop
	Kept    bool
}

func packed(members []int, r *Result) (p hostResult, err error) {
	p = hostResult{Ranks: members, Machine: r.Machine, Devices: r.Devices, Found: r.Found, Dropped: r.Dropped,
		Kept: r.Kept}
	p.Graph, err = r.Graph.AppendJSON(nil)
	return p, err
}

// AppendJSON appends a form of h that ParseHost reads.
func (h *HostResult) AppendJSON(b []byte) ([]byte, error) {
	p, err := packed(h.Ranks, &h.Result)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(p)
	return append(b, data...), err
}

// ParseHost reads what AppendJSON wrote, and checks it.
func ParseHost(data []byte) (*HostResult, error) {
	if len(data) > maxBlob {
		return nil, fmt.Errorf("peers: a host of %d bytes, at most %d are possible", len(data), maxBlob)
	}
	var p hostResult
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("peers: what was found on a host: %w", err)
	}
	h, err := p.open()
	if err != nil {
		return nil, fmt.Errorf("peers: what was found on a host: %w", err)
	}
	return h, nil
}

// open checks what was found on a host.
func (p *hostResult) open() (*HostResult, error) {
	if p.Machine == nil || len(p.Devices) != len(p.Ranks) {
		return nil, fmt.Errorf("%d ranks with %d GPUs", len(p.Ranks), len(p.Devices))
	}
	if err := p.Machine.Validate(); err != nil {
		return nil, err
	}
	for _, uuid := range p.Devices {
		if p.Machine.Find(uuid) == nil {
			return nil, fmt.Errorf("GPU %.80q is not one of the host", uuid)
		}
	}
	for _, f := range p.Found {
		if f.A < 0 || f.A >= f.B || f.B >= len(p.Ranks) {
			return nil, fmt.Errorf("it has measured the pair %d-%d", f.A, f.B)
		}
	}
	if err := checkDropped(p.Dropped, len(p.Ranks)); err != nil {
		return nil, err
	}
	g, err := topo.ParseGraph(p.Graph)
	if err == nil && g.Ranks != len(p.Ranks) {
		err = fmt.Errorf("a graph of %d ranks, want %d", g.Ranks, len(p.Ranks))
	}
	if err != nil {
		return nil, err
	}
	return &HostResult{p.Ranks, Result{p.Machine, p.Devices, g, p.Found, p.Dropped, p.Kept}}, nil
}

// membersOf returns the ranks of a host.
func membersOf(w HostsWorld, host int) []int {
	var list []int
	for r := range w.Size() {
		if w.HostOf(r) == host {
			list = append(list, r)
		}
	}
	return list
}

// hostWorld is the ranks of one host within a job of several. All ranks of the job
// gather together; those of a host that is done take part until all are.
type hostWorld struct {
	HostsWorld
	members []int
	rank    int
}

func newHostWorld(w HostsWorld) *hostWorld {
	h := &hostWorld{HostsWorld: w, members: membersOf(w, w.HostOf(w.Rank()))}
	h.rank = slices.Index(h.members, w.Rank())
	return h
}

// Rank returns the number of this rank on its host.
func (h *hostWorld) Rank() int { return h.rank }

// Size returns the number of ranks of the host.
func (h *hostWorld) Size() int { return len(h.members) }

// What a rank's blob begins with.
const (
	measuring = 'm'
	done      = 'd'
)

// AllGather returns the blobs of the host's ranks.
func (h *hostWorld) AllGather(ctx context.Context, b []byte) ([][]byte, error) {
	all, err := h.HostsWorld.AllGather(ctx, append([]byte{measuring}, b...))
	if err != nil {
		return nil, err
	}
	var mine [][]byte
	for _, r := range h.members {
		if len(all[r]) == 0 || all[r][0] != measuring {
			return nil, fmt.Errorf("rank %d has given up", r)
		}
		mine = append(mine, all[r][1:])
	}
	return mine, nil
}

// finish waits until all hosts are done.
func (h *hostWorld) finish(ctx context.Context) error {
	for {
		all, err := h.HostsWorld.AllGather(ctx, []byte{done})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(b []byte) bool { return len(b) == 0 || b[0] != done }) {
			return nil
		}
	}
}
