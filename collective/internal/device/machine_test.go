//go:build cgo && linux

package device

import (
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// machine is some ranks of this process, each with a device of its own as far as
// there are enough, and the groups that they make.
type machine struct {
	t       *testing.T
	plans   []*plan.Plan
	devices []*cuda.Device // by rank
	loaded  map[*cuda.Device]*kernels.Set
	staging []cuda.Slice[uint8]
	flags   []*cuda.Pinned[uint8] // by host
	hosted  []*cuda.Pinned[uint8] // by rank: slots in the host's memory; nil: it gives none
	groups  []*Group
	eps     []transport.Endpoint // by rank, where there is a network link
	free    []func() error
}

// how holds the properties of a machine.
type how struct {
	slots, slotBytes int
	first            uint32
	streams          int
	hosts            func(rank int) int // nil: all on one
	failed           func(rank int, err error)
	devices          int                     // 0: one each
	apart            func(src, dst int) bool // devices that are not to read each other; nil: none
	push             func(src, dst int) bool // links whose slots are the reader's; nil: none
}

func (h *how) host(rank int) int {
	if h.hosts == nil {
		return 0
	}
	return h.hosts(rank)
}

func shapeOf(plans []*plan.Plan, h how, devices []*cuda.Device) Shape {
	s := Shape{Slots: h.slots, SlotBytes: h.slotBytes, Location: func(src, dst int) Location {
		can, err := devices[dst].CanAccess(devices[src])
		switch {
		case h.host(src) != h.host(dst):
			return Network
		case !can || err != nil || h.apart != nil && h.apart(src, dst):
			return InHost
		case h.push != nil && h.push(src, dst):
			return InReader
		}
		return InDevice
	}}
	s.Plans = plans
	return s
}

func someDevices(t *testing.T, n int, h how) []*cuda.Device {
	t.Helper()
	fakegpu.Need(t)
	all, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	use := h.devices
	if use == 0 {
		use = len(all)
	}
	var devices []*cuda.Device
	for r := range n {
		devices = append(devices, all[r%use])
	}
	return devices
}

func start(t *testing.T, plans []*plan.Plan, h how) *machine {
	t.Helper()
	n := plans[0].Size
	m := &machine{t: t, plans: plans, devices: someDevices(t, n, h), loaded: map[*cuda.Device]*kernels.Set{},
		groups: make([]*Group, n)}
	shape := shapeOf(plans, h, m.devices)
	hosts := 0
	for r := range n {
		hosts = max(hosts, h.host(r)+1)
	}
	layouts := make([]*Layout, n)
	staging := make([]cuda.Addr, n)
	for r, d := range m.devices {
		l, err := NewLayout(shape, r)
		m.must(err)
		layouts[r] = l
		if _, ok := m.loaded[d]; !ok {
			k, err := kernels.Load(d, everyFile()...)
			m.must(err)
			m.loaded[d] = k
			m.free = append(m.free, k.Close)
		}
		s, err := cuda.Alloc[uint8](d, int(l.Owned[InDevice][r]))
		m.must(err)
		m.staging, staging[r] = append(m.staging, s), s.Addr()
		m.free = append(m.free, s.Free)
		m.hosted = append(m.hosted, nil)
		if n := l.Owned[InHost][r]; n > 0 {
			m.hosted[r], err = cuda.AllocPinned[uint8](d, int(n))
			m.must(err)
			m.free = append(m.free, m.hosted[r].Free)
		}
	}
	for r, d := range m.devices {
		for src, other := range m.devices {
			if can, _ := d.CanAccess(other); r != src && can && d != other {
				m.must(d.EnablePeer(other))
			}
		}
	}
	for range hosts {
		p, err := cuda.AllocPinned[uint8](m.devices[0], layouts[0].FlagBytes())
		m.must(err)
		layouts[0].begin(p.Host(), h.first)
		m.flags = append(m.flags, p)
		m.free = append(m.free, p.Free)
	}
	if layouts[0].UsesNetwork() {
		layout := transport.Layout{Size: n, Slots: h.slots, SlotBytes: h.slotBytes}
		m.eps = testutil.Links(t, n, func(w *testutil.World) (transport.Endpoint, error) {
			return shm.Connect(t.Context(), shm.Config{Rank: w.Rank(), Layout: layout, Key: make([]byte, shm.KeyBytes),
				JobID: "test", Exchange: w.AllGather})
		})
		for _, ep := range m.eps {
			m.free = append(m.free, ep.Close)
		}
	}
	for r, d := range m.devices {
		slots := slotsOf(layouts[r], func(p Location, src int) cuda.Addr {
			if p == InDevice {
				return staging[src]
			}
			return m.hosted[src].Addr()
		})
		cfg := Config{Layout: layouts[r], Device: d, Kernels: m.loaded[d], Slots: slots, First: h.first,
			Streams: h.streams, Near: func(r int) bool { return m.devices[r] == d },
			Flags: m.flags[h.host(r)].Host(), FlagsAddr: m.flags[h.host(r)].Addr()}
		if m.eps != nil {
			cfg.Endpoint = m.eps[r]
		}
		if h.failed != nil {
			cfg.Failed = func(err error) { h.failed(r, err) }
		}
		g, err := New(cfg)
		m.must(err)
		m.groups[r] = g
	}
	return m
}

// everyFile returns the files of all kernels that calls need.
func everyFile() []string {
	files := []string{kernels.Copies}
	for d := range kernel.DeviceDTypes {
		files = append(files, kernels.Of(d))
	}
	return files
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) close() {
	m.t.Helper()
	var all sync.WaitGroup
	for r, g := range m.groups {
		all.Go(func() {
			if err := g.Close(); err != nil {
				m.t.Errorf("rank %d: close: %v", r, err)
			}
		})
	}
	all.Wait()
	for _, f := range m.free {
		m.must(f())
	}
}

// each runs f as every rank.
func (m *machine) each(f func(r int) error) {
	m.t.Helper()
	var all sync.WaitGroup
	for r := range m.groups {
		all.Go(func() {
			if err := f(r); err != nil {
				m.t.Errorf("rank %d: %v", r, err)
			}
		})
	}
	all.Wait()
	if m.t.Failed() {
		m.t.FailNow()
	}
}
