package peers

import (
	"context"
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/topo/gpu"
)

// meter measures as one rank.
type meter struct {
	ctx context.Context
	w   World
	dev *cuda.Device

	hosts   []HostResult // in the order of their first ranks
	host    *HostResult  // this rank's
	hellos  []hello
	offers  []Offer
	buffers *buffers // nil where nothing is measured
	late    error    // of closing a link, reported at the end
}

// first reports whether this rank is the first of its host.
func (m *meter) first() bool { return m.host.Ranks[0] == m.w.Rank() }

// hello is a rank's first message.
type hello struct {
	UUID    string
	GPU     gpu.GPU      // its own
	Machine *gpu.Machine `json:",omitempty"` // the first rank of a host only
}

// swap is agree.Exchange for a meter.
func swap[T any](m *meter, mine T, failed error) ([]T, error) {
	all, err := agree.Exchange(m.ctx, m.w.AllGather, m.w.Size(), nil, mine, failed)
	if err != nil {
		return nil, fmt.Errorf("measure peer links: %w", err)
	}
	return all, nil
}

// meet learns the ranks of each host and their GPUs, and combines the ranks' reports of the hosts.
func (m *meter) meet() error {
	for r := range m.w.Size() {
		i := slices.IndexFunc(m.hosts, func(h HostResult) bool { return m.w.HostOf(h.Ranks[0]) == m.w.HostOf(r) })
		if i < 0 {
			i = len(m.hosts)
			m.hosts = append(m.hosts, HostResult{})
		}
		m.hosts[i].Ranks = append(m.hosts[i].Ranks, r)
	}
	own := slices.IndexFunc(m.hosts, func(h HostResult) bool { return slices.Contains(h.Ranks, m.w.Rank()) })
	m.host = &m.hosts[own]
	machine, err := readMachine(m.dev)
	h := hello{UUID: m.dev.UUID()}
	if err == nil {
		h.GPU = *machine.Find(h.UUID)
		if m.first() {
			h.Machine = machine
		}
	}
	if m.hellos, err = swap(m, h, err); err != nil {
		return err
	}
	for i := range m.hosts {
		if err := m.hosts[i].meet(m.hellos); err != nil {
			return fmt.Errorf("measure peer links: %w", err) // the same error on all ranks
		}
	}
	return nil
}

// meet adds GPUs of other ranks to the first rank's report of a host: GPUs that the first rank does not see, as in
// another container.
func (host *HostResult) meet(hellos []hello) error {
	m := hellos[host.Ranks[0]].Machine
	if m == nil {
		return fmt.Errorf("rank %d sent no description of the host", host.Ranks[0])
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("the description of the host by rank %d: %w", host.Ranks[0], err)
	}
	for _, r := range host.Ranks {
		h := hellos[r]
		if h.UUID == "" || h.GPU.UUID != h.UUID {
			return fmt.Errorf("rank %d has GPU %.80q and describes %.80q", r, h.UUID, h.GPU.UUID)
		}
		host.Devices = append(host.Devices, h.UUID)
		if m.Find(h.UUID) == nil {
			h.GPU.Index = next(m)
			m.GPUs = append(m.GPUs, h.GPU)
			m.Levels, m.Refused = wider(m.Levels), wider(m.Refused)
		}
	}
	host.Machine = m
	return m.Validate()
}

// wider returns the table of all pairs with one more row and column, of zero values: nothing is known of these.
func wider[T any](pairs [][]T) [][]T {
	if pairs == nil {
		return nil
	}
	pairs = append(pairs, make([]T, len(pairs)))
	for i := range pairs {
		pairs[i] = append(pairs[i], *new(T))
	}
	return pairs
}

// next returns a number that no GPU has.
func next(m *gpu.Machine) int {
	n := 0
	for _, g := range m.GPUs {
		n = max(n, g.Index+1)
	}
	return n
}
