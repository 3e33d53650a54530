// Package peers is not for users: it measures the links between the GPUs of one host. Ranks, one or several on each
// GPU, copy from each other's memory as collectives do, in rounds of pairs that do not disturb each other, and compare
// patterns over every link. A link that delivers wrong data, or does not end in time, is reported and not used: where
// ACS or an IOMMU blocks peer memory the driver does not know. The result is a topo.Graph with measured rates in
// addition to declared ones, which is kept for later jobs. It makes no plans; package collective and the command use
// it.
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

// World is the ranks of a job on one host or several, as *rank.World is.
type World interface {
	Rank() int
	Size() int
	HostOf(rank int) int
	AllGather(ctx context.Context, blob []byte) ([][]byte, error)
}

// Options sets where Measure keeps results and whether it uses them.
type Options struct {
	Cache *probe.Cache // where things are kept; nil: nowhere
	Anew  bool         // measure even if there is a cached result
}

// HostResult describes the GPUs of a host's ranks.
type HostResult struct {
	Ranks   []int         // of the host, ascending
	Machine *gpu.Machine  // the host's GPUs, those of all ranks at least
	Devices []string      // by rank of the host: the UUID of its GPU
	Graph   *topo.Graph   // of the ranks of the host
	Found   []gpu.Finding // measured now; none when an earlier job's figures were taken
	Dropped []gpu.Drop    // the links that are advertised but not used
	Kept    bool          // it is from an earlier job
}

// Measure finds the links of the GPUs of w's ranks, all of which call it together, each with its device, which no other
// work should use meanwhile. All hosts measure at the same time. It takes some tenths of a second, and some seconds
// more for every link that hangs. Such a copy may run forever: its stream and memory are left alone, and the device
// cannot be closed any more.
//
// The results are the same on all ranks: one for each host, in the order of their first ranks. So is an error, which
// names the rank where something failed; measuring was then given up everywhere. A link that fails is no error.
func Measure(ctx context.Context, w World, dev *cuda.Device, o Options) ([]HostResult, error) {
	m := &meter{ctx: ctx, w: w, dev: dev}
	measured, err := m.run(o)
	closeErr := m.close()
	if err == nil && measured {
		_, err = swap(m, struct{}{}, closeErr)
	}
	if err != nil {
		return nil, err
	}
	return m.hosts, nil
}

// run does everything except release the meter's resources, and reports whether any host was measured.
func (m *meter) run(o Options) (measured bool, err error) {
	if err := m.meet(); err != nil {
		return false, err
	}
	if err := m.load(&o); err != nil {
		return false, err
	}
	all, err := m.measure()
	if err != nil {
		return false, err
	}
	for i := range m.hosts {
		h := &m.hosts[i]
		if h.Kept {
			continue
		}
		if all != nil {
			if h.Found, err = findings(h, all); err != nil {
				return false, err
			}
		}
		if h.Graph, err = gpu.Graph(h.Machine, h.Devices, h.Found); err != nil {
			return false, fmt.Errorf("measure peer links: %w", err) // of the same data on all ranks
		}
		h.Dropped = gpu.Dropped(h.Found)
	}
	if m.first() && !m.host.Kept {
		if err := o.store(m.host); err != nil {
			fmt.Fprintf(os.Stderr, "treerun: %v\n", err) // it is measured again next time
		}
	}
	return all != nil, nil
}

// load takes the hosts' results of an earlier job.
func (m *meter) load(o *Options) error {
	var mine []byte
	if m.first() {
		mine = o.load(m.host)
	}
	all, err := swap(m, mine, nil)
	if err != nil {
		return err
	}
	for i := range m.hosts {
		h := &m.hosts[i]
		data := all[h.Ranks[0]]
		if h.Kept = len(data) > 0; !h.Kept {
			continue
		}
		if h.Graph, h.Dropped, err = parseCache(data, len(h.Ranks)); err != nil {
			return fmt.Errorf("measure peer links: the cached results of rank %d: %w", h.Ranks[0], err)
		}
	}
	return nil
}

// readMachine returns this process's view of the host's GPUs: NVML's, or, where that is unavailable, this device only.
func readMachine(dev *cuda.Device) (*gpu.Machine, error) {
	m, err := nvml.Read()
	if err != nil && !errors.Is(err, nvml.ErrUnavailable) {
		return nil, err
	}
	if m == nil {
		m = new(gpu.Machine)
	}
	if m.Find(dev.UUID()) == nil {
		return &gpu.Machine{Driver: m.Driver, CUDA: m.CUDA, GPUs: []gpu.GPU{{Index: dev.Index(), UUID: dev.UUID(),
			Name: dev.Name(), PCI: gpu.NormalPCI(dev.PCI()), Memory: dev.TotalMemory(), NUMA: -1}}}, nil
	}
	return m, nil
}
