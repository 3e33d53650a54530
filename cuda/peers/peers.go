// Package peers measures what the GPUs of one host can do for each other: ranks,
// one or several on each GPU, copy from each other's memory as collectives do, in
// rounds of pairs that do not disturb each other, and write and read back patterns
// over every link. A link that is wrong, or does not end in time, is told and not
// used: where ACS or an IOMMU is in the way of peer memory the driver does not know.
// What comes out is a topo.Graph with measured beside declared rates, which is kept
// for later jobs. It makes no plans; package collective and the command use it.
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/topo/probe"
)

// World is the ranks of one host, as *rank.World is for a job on one host.
type World interface {
	Rank() int
	Size() int
	AllGather(ctx context.Context, blob []byte) ([][]byte, error)
}

// Options says how to measure. The zero value takes what an earlier job has kept.
type Options struct {
	Anew    bool         // measure whatever was kept, and keep what comes out
	Forget  bool         // measure whatever was kept, and keep nothing
	Cache   *probe.Cache // where things are kept; nil: the user's cache
	Machine *gpu.Machine // what this rank's NVML says; nil: ask it
}

// Result is what is known of the GPUs of the ranks. It is the same on all ranks.
type Result struct {
	Machine *gpu.Machine  // the host's GPUs, those of all ranks at least
	Devices []string      // by rank: the UUID of its GPU
	Graph   *topo.Graph   // of the ranks
	Found   []gpu.Finding // what was measured now; none when an earlier job's figures were taken
	Dropped []gpu.Drop    // the links that are advertised but not used
	Kept    bool          // it is from an earlier job
}

// Measure finds out about the GPUs of the ranks of w, all of which call it together,
// each with its device, which no other work should use meanwhile. It takes some
// tenths of a second, and some seconds more for every link that hangs. Such a copy
// may go on for ever: its stream and memory are left alone, and the device cannot be
// closed any more.
//
// An error is the same on all ranks, and names the rank where something failed;
// measuring was then given up everywhere. A link that fails is no error.
func Measure(ctx context.Context, w World, dev *cuda.Device, o Options) (*Result, error) {
	m := &meter{ctx: ctx, w: w, dev: dev}
	r, err := m.run(o)
	if closeErr := m.close(); err == nil && closeErr != nil {
		err = fmt.Errorf("measure peer links: %w", closeErr)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// run does everything but giving back what was taken.
func (m *meter) run(o Options) (*Result, error) {
	if err := m.meet(o.Machine); err != nil {
		return nil, err
	}
	cache := newCache(o, m)
	cached, err := m.cached(cache)
	if err != nil || cached != nil {
		return cached, err
	}
	found, err := m.measure()
	if err != nil {
		return nil, err
	}
	r := &Result{Machine: m.machine, Devices: m.devices(), Found: found}
	if r.Graph, err = gpu.Graph(r.Machine, r.Devices, found); err != nil {
		return nil, fmt.Errorf("measure peer links: %w", err) // of the same data on all ranks
	}
	r.Dropped = gpu.Dropped(found)
	if m.w.Rank() == 0 {
		if err := cache.store(r); err != nil {
			fmt.Fprintf(os.Stderr, "treerun: %v\n", err) // it is measured again next time
		}
	}
	return r, nil
}

// kept returns what rank 0 has from an earlier job, nil for nothing.
func (m *meter) cached(k *cache) (*Result, error) {
	var mine []byte
	if m.w.Rank() == 0 {
		mine = k.load()
	}
	all, err := swap(m, mine, nil)
	if err != nil || len(all[0]) == 0 {
		return nil, err
	}
	g, dropped, err := parseCache(all[0], m.w.Size())
	if err != nil {
		return nil, fmt.Errorf("measure peer links: what rank 0 has kept: %w", err)
	}
	return &Result{Machine: m.machine, Devices: m.devices(), Graph: g, Dropped: dropped, Kept: true}, nil
}

// readMachine is what this process can tell of the host's GPUs: NVML's word, or, where that
// cannot be asked, that there is this device.
func readMachine(dev *cuda.Device) (*gpu.Machine, error) {
	m, err := nvml.Read()
	if err != nil && !errors.Is(err, nvml.ErrUnavailable) {
		return nil, err
	}
	if m == nil {
		m = new(gpu.Machine)
	}
	if m.Find(dev.UUID()) == nil {
		return &gpu.Machine{Driver: m.Driver, CUDA: m.CUDA, GPUs: []gpu.GPU{alone(dev)}}, nil
	}
	return m, nil
}

// alone is what the driver says of a device.
func alone(dev *cuda.Device) gpu.GPU {
	return gpu.GPU{Index: dev.Index(), UUID: dev.UUID(), Name: dev.Name(), PCI: gpu.NormalPCI(dev.PCI()),
		Memory: dev.TotalMemory(), NUMA: -1}
}
