// Package gpu is not for users: it holds the description of the GPUs of one host before anything is measured, and makes
// a topo.Graph of the ranks that run on them: NVLinks per pair, NVSwitches, PCIe and the sockets, with declared
// bandwidths. It also returns the order in which ranks take GPUs. It is pure and imports topo only: package cuda/nvml
// fills a Machine, package cuda/peers measures, anyone may read.
package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// MaxGPUs, maxIndex and maxNVLinks bound a Machine: GPUs of a host, their numbers,
// NVLinks of a GPU.
const (
	MaxGPUs    = 256
	maxIndex   = 1 << 16
	maxNVLinks = 64
)

// GPU is one GPU of a host.
type GPU struct {
	Index  int    // as nvidia-smi counts, from 0
	UUID   string // "GPU-" and 36 hexadecimal digits and dashes
	Name   string // "NVIDIA H100 80GB HBM3"
	PCI    string // "0000:17:00.0", lower case
	Memory int64  // bytes

	MemoryRate float64 // bandwidth of its memory by clock and bus width, GB/s; 0: not known
	NUMA       int     // node whose cores and memory are near; -1: not known
	CPUs       []int   // cores near it, ascending; nil: not known
	MIG        bool    // it is cut into MIG instances, and is none for treerun

	PCIeGeneration int // the most that GPU and slot can do; 0: not known
	PCIeWidth      int // lanes, likewise
	NVLinks        []NVLink

	// Uplink is the bandwidth of the PCIe switch that the GPU is behind to the rest of the host, GB/s; 0: that of the
	// quickest slot behind it.
	Uplink float64 `json:",omitempty"`
}

// String names the GPU for people, and describes its connections.
func (g *GPU) String() string {
	return fmt.Sprintf("GPU %d (%s, %s, %s)%s", g.Index, g.Name, g.UUID, g.PCI, g.Connections())
}

// Connections describes the GPU's connections, for people: ", NUMA node 0, PCIe 4.0 x16, 12 NVLinks 3.0 to NVSwitches".
// Unknown values are left out.
func (g *GPU) Connections() string {
	text := ""
	if g.NUMA >= 0 {
		text += fmt.Sprintf(", NUMA node %d", g.NUMA)
	}
	if g.PCIeGeneration > 0 && g.PCIeWidth > 0 {
		text += fmt.Sprintf(", PCIe %d.0 x%d", g.PCIeGeneration, g.PCIeWidth)
	}
	if n := len(g.NVLinks); n > 0 {
		text += fmt.Sprintf(", %d NVLinks", n)
		if v := g.NVLinks[0].Version; v > 0 {
			text += fmt.Sprintf(" %d.0", v)
		}
	}
	if i := slices.IndexFunc(g.NVLinks, func(l NVLink) bool { return l.Switch }); i >= 0 {
		text += " to NVSwitches"
		if g.NVLinks[i].Remote == "" {
			text += " (inferred: NVML does not show where they end)"
		}
	}
	return text
}

// NVLink is an active NVLink of a GPU.
type NVLink struct {
	Version int    // generation: 1 for P100, 2 V100, 3 A100, 4 H100, 5 B200; 0: not known
	Remote  string // PCI address of the other end, as in GPU; "": not known
	Switch  bool   // the other end is an NVSwitch

	Rate float64 `json:",omitempty"` // GB/s each way; 0: that of its generation
}

// InferSwitches takes NVLinks for ones to NVSwitches where NVML reports nothing of their ends, as in virtual machines,
// and where that is so on all GPUs.
func (m *Machine) InferSwitches() {
	reported := func(l NVLink) bool { return l.Switch || l.Remote != "" && !strings.HasPrefix(l.Remote, "ffff") }
	for i := range m.GPUs {
		if all := m.GPUs[i].NVLinks; slices.ContainsFunc(all, reported) || !slices.Equal(all, m.GPUs[0].NVLinks) {
			return
		}
	}
	for i := range m.GPUs {
		for k := range m.GPUs[i].NVLinks {
			m.GPUs[i].NVLinks[k] = NVLink{Version: m.GPUs[i].NVLinks[k].Version, Switch: true}
		}
	}
}

// Level is the distance of two GPUs on PCIe: the nearest part that they share.
type Level int

// The levels, from near to far. They are those of nvidia-smi topo.
const (
	LevelUnknown  Level = iota
	LevelBoard          // two GPUs of one board
	LevelSwitch         // one PCIe switch
	LevelSwitches       // several PCIe switches, no root
	LevelRoot           // one PCIe root
	LevelNode           // one NUMA node, several roots
	LevelSystem         // only the interconnect of the sockets
)

// Machine is NVML's description of a host.
type Machine struct {
	Driver string // version of the driver
	CUDA   int    // newest CUDA that the driver knows, as 12040 for 12.4; 0: not known
	GPUs   []GPU
	Levels [][]Level // of every pair of GPUs; nil: not known

	// Refused is, for every pair of GPUs, the reason why the driver does not let one read the other's memory, "" when it
	// does or reports nothing; nil: not known.
	Refused [][]string
}

// Validate reports the first impossible value in m.
func (m *Machine) Validate() error {
	if len(m.GPUs) > MaxGPUs {
		return fmt.Errorf("gpu: %d GPUs on one host, at most %d are possible", len(m.GPUs), MaxGPUs)
	}
	seen := make(map[string]bool)
	numbers := make(map[int]bool)
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if g.Index < 0 || g.Index > maxIndex || numbers[g.Index] {
			return fmt.Errorf("gpu: GPU %.80q has number %d: every GPU needs one of its own, 0..%d", g.UUID, g.Index, maxIndex)
		}
		numbers[g.Index] = true
		if g.UUID == "" || seen[g.UUID] {
			return fmt.Errorf("gpu: GPU %d has UUID %q: every GPU needs one of its own", g.Index, g.UUID)
		}
		seen[g.UUID] = true
		if len(g.NVLinks) > maxNVLinks {
			return fmt.Errorf("gpu: GPU %d has %d NVLinks, at most %d are possible", g.Index, len(g.NVLinks), maxNVLinks)
		}
	}
	if err := square("PCIe levels", m.Levels, len(m.GPUs)); err != nil {
		return err
	}
	return square("peer access", m.Refused, len(m.GPUs))
}

// square checks that rows, unless nil, have a value for every pair of GPUs.
func square[T any](what string, rows [][]T, gpus int) error {
	if rows != nil && len(rows) != gpus {
		return fmt.Errorf("gpu: %s of %d GPUs, want %d", what, len(rows), gpus)
	}
	for i, row := range rows {
		if len(row) != gpus {
			return fmt.Errorf("gpu: %s of GPU %d to %d others, want %d", what, i, len(row), gpus)
		}
	}
	return nil
}

// Find returns the GPU with a UUID, nil when there is none.
func (m *Machine) Find(uuid string) *GPU {
	if i := m.place(uuid); i >= 0 {
		return &m.GPUs[i]
	}
	return nil
}

// level returns the level of two GPUs, by their places in m, on PCIe.
func (m *Machine) level(a, b int) Level {
	if m.Levels == nil {
		return LevelUnknown
	}
	return m.Levels[a][b]
}

// refused returns why two GPUs, by their places in m, cannot read each other's memory, "" when they can or that is not
// known.
func (m *Machine) refused(a, b int) string {
	if m.Refused == nil {
		return ""
	}
	return m.Refused[a][b] + m.Refused[b][a]
}

// place returns the place of a GPU in m.GPUs, -1 for none.
func (m *Machine) place(uuid string) int {
	return slices.IndexFunc(m.GPUs, func(g GPU) bool { return g.UUID == uuid })
}

// InOrder returns GPUs in the order in which ranks take them: by NUMA node, those
// of an unknown one last, and by PCI address within. So neighboring ranks are
// neighbors on the machine.
func InOrder(gpus []GPU) []GPU {
	list := slices.Clone(gpus)
	slices.SortStableFunc(list, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(uint(a.NUMA), uint(b.NUMA)), cmp.Compare(NormalPCI(a.PCI), NormalPCI(b.PCI)),
			a.Index-b.Index)
	})
	return list
}

// NormalPCI writes a PCI address as Linux does, "0000:17:00.0": NVML writes the
// domain with eight digits and in capitals.
func NormalPCI(address string) string {
	address = strings.ToLower(strings.TrimSpace(address))
	domain, rest, found := strings.Cut(address, ":")
	if !found || !strings.Contains(rest, ":") {
		return address
	}
	domain = strings.TrimLeft(domain, "0")
	return strings.Repeat("0", max(0, 4-len(domain))) + domain + ":" + rest
}
