//go:build cgo

package nvml

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/treerun/treerun/topo/gpu"
)

// mu makes Init and Shutdown of one library pairs.
var mu sync.Mutex

func read() (*gpu.Machine, error) {
	mu.Lock()
	defer mu.Unlock()
	return readFrom(nvml.New())
}

// readFrom asks a library, which may be a mock.
func readFrom(lib nvml.Interface) (*gpu.Machine, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("%w: libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver is installed, or this container "+
			"does not have it", ErrUnavailable)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: the NVIDIA driver is not loaded (hint: lsmod, dmesg)", ErrUnavailable)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, fmt.Errorf("%w: %w: libnvidia-ml.so.1 and the loaded driver have different versions: the driver was "+
			"updated (hint: restart the host)", ErrUnavailable, ErrBroken)
	case nvml.ERROR_NO_PERMISSION:
		return nil, fmt.Errorf("%w: %w: no permission (hint: may this user open /dev/nvidiactl?)", ErrUnavailable, ErrBroken)
	default:
		return nil, fmt.Errorf("%w: %w: nvmlInit: %s", ErrUnavailable, ErrBroken, ret.Error())
	}
	defer lib.Shutdown()
	r := &reader{lib: lib}
	return r.machine()
}

// reader asks one library.
type reader struct {
	lib     nvml.Interface
	devices []nvml.Device
	m       gpu.Machine
}

// has tells whether the library knows a function: calling one that it does not
// know would end the process.
func (r *reader) has(symbol string) bool { return r.lib.Extensions().LookupSymbol(symbol) == nil }

func (r *reader) machine() (*gpu.Machine, error) {
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("nvmlDeviceGetCount: %s", ret.Error())
	}
	if n < 0 || n > gpu.MaxGPUs {
		return nil, fmt.Errorf("nvmlDeviceGetCount: %d GPUs, at most %d are possible", n, gpu.MaxGPUs)
	}
	r.m.Driver, _ = r.lib.SystemGetDriverVersion()
	r.m.CUDA, _ = r.lib.SystemGetCudaDriverVersion()
	for i := range n {
		d, ret := r.lib.DeviceGetHandleByIndex(i)
		switch ret {
		case nvml.SUCCESS:
		case nvml.ERROR_NO_PERMISSION: // a container that does not have this one
			continue
		default:
			return nil, fmt.Errorf("nvmlDeviceGetHandleByIndex of GPU %d: %s", i, ret.Error())
		}
		g, err := r.gpu(i, d)
		if err != nil {
			return nil, err
		}
		r.devices, r.m.GPUs = append(r.devices, d), append(r.m.GPUs, g)
	}
	r.levels()
	r.access()
	if err := r.m.Validate(); err != nil {
		return nil, fmt.Errorf("what NVML says: %w", err)
	}
	return &r.m, nil
}

// gpu asks about one GPU. Only what treerun cannot do without is an error.
func (r *reader) gpu(i int, d nvml.Device) (gpu.GPU, error) {
	g := gpu.GPU{Index: i, NUMA: -1}
	var ret nvml.Return
	if g.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		return g, fmt.Errorf("nvmlDeviceGetUUID of GPU %d: %s", i, ret.Error())
	}
	pci, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return g, fmt.Errorf("nvmlDeviceGetPciInfo of GPU %d: %s", i, ret.Error())
	}
	g.PCI = address(pci)
	if g.Name, ret = d.GetName(); ret != nvml.SUCCESS {
		g.Name = "unknown GPU"
	}
	if memory, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		g.Memory = int64(memory.Total)
	}
	if r.has("nvmlDeviceGetMigMode") {
		current, _, ret := d.GetMigMode()
		g.MIG = ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE
	}
	g.MemoryRate = r.memoryRate(d)
	g.PCIeGeneration, g.PCIeWidth = slot(d)
	g.CPUs = cpus(d)
	if g.NUMA = r.numa(d); g.NUMA < 0 {
		g.NUMA = linuxNUMA(g.PCI)
	}
	g.NVLinks = r.nvlinks(d)
	return g, nil
}

// address returns the PCI address that NVML tells, as Linux writes it.
func address(p nvml.PciInfo) string {
	text := text(p.BusId[:])
	if text == "" {
		text = fmt.Sprintf("%04x:%02x:%02x.0", p.Domain, p.Bus, p.Device)
	}
	return gpu.NormalPCI(text)
}

// text returns what stands in a C array, up to its zero.
func text[T ~int8 | ~uint8](array []T) string {
	var b strings.Builder
	for _, c := range array {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// memoryRate returns the bandwidth of the GPU's memory in GB/s: two transfers per
// cycle of its fastest clock over the width of its bus; 0 when NVML does not tell.
func (r *reader) memoryRate(d nvml.Device) float64 {
	if !r.has("nvmlDeviceGetMemoryBusWidth") || !r.has("nvmlDeviceGetMaxClockInfo") {
		return 0
	}
	width, ret := d.GetMemoryBusWidth()
	if ret != nvml.SUCCESS {
		return 0
	}
	clock, ret := d.GetMaxClockInfo(nvml.CLOCK_MEM) // MHz
	if ret != nvml.SUCCESS {
		return 0
	}
	return 2 * float64(clock) * 1e6 * float64(width) / 8 / 1e9
}

// slot returns generation and width that GPU and slot can do: what they do just
// now is less while the GPU is idle.
func slot(d nvml.Device) (generation, width int) {
	generation, ret := d.GetMaxPcieLinkGeneration()
	if ret != nvml.SUCCESS {
		generation = 0
	}
	if width, ret = d.GetMaxPcieLinkWidth(); ret != nvml.SUCCESS {
		width = 0
	}
	return generation, width
}

// maxCPUs is how many cores NVML is asked about.
const maxCPUs = 4096

// cpus returns the cores that NVML holds for near.
func cpus(d nvml.Device) []int {
	mask, ret := d.GetCpuAffinity(maxCPUs)
	if ret != nvml.SUCCESS {
		return nil
	}
	return set(mask)
}

// set returns the numbers of the bits that are set.
func set(mask []uint) []int {
	var list []int
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			list = append(list, i*bits.UintSize+bits.TrailingZeros(word))
		}
	}
	return list
}

// maxNodes is how many NUMA nodes NVML is asked about.
const maxNodes = 1024

// numa returns the NUMA node whose memory NVML holds for near, -1 when it names
// none or several.
func (r *reader) numa(d nvml.Device) int {
	if !r.has("nvmlDeviceGetMemoryAffinity") {
		return -1
	}
	mask, ret := d.GetMemoryAffinity(maxNodes, nvml.AFFINITY_SCOPE_NODE)
	if ret != nvml.SUCCESS {
		return -1
	}
	if nodes := set(mask); len(nodes) == 1 {
		return nodes[0]
	}
	return -1
}

// nvlinks returns the active NVLinks of a GPU.
func (r *reader) nvlinks(d nvml.Device) []gpu.NVLink {
	var list []gpu.NVLink
	typed := r.has("nvmlDeviceGetNvLinkRemoteDeviceType")
	for i := range nvml.NVLINK_MAX_LINKS {
		if state, ret := d.GetNvLinkState(i); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			if ret == nvml.ERROR_INVALID_ARGUMENT {
				break // it has no such link, nor any after it
			}
			continue
		}
		l := gpu.NVLink{}
		if version, ret := d.GetNvLinkVersion(i); ret == nvml.SUCCESS {
			l.Version = generation(version)
		}
		if pci, ret := d.GetNvLinkRemotePciInfo(i); ret == nvml.SUCCESS {
			l.Remote = address(pci)
		}
		if typed {
			kind, ret := d.GetNvLinkRemoteDeviceType(i)
			l.Switch = ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH
		}
		list = append(list, l)
	}
	return list
}

// generation returns the generation of NVLink for NVML's numbers, which count
// revisions: 1 for 1.0, 2 for 2.0, 3 for 2.2, 4 for 3.0, 5 for 3.1, 6 for 4.0 and 7
// for 5.0 (nvml.h, NVML_NVLINK_VERSION_*).
func generation(version uint32) int {
	known := []int{0, 1, 2, 2, 3, 3, 4, 5}
	if int(version) < len(known) {
		return known[version]
	}
	return 0
}

// levels asks what every pair of GPUs has in common on PCIe.
func (r *reader) levels() {
	n := len(r.devices)
	r.m.Levels = make([][]gpu.Level, n)
	for a := range n {
		r.m.Levels[a] = make([]gpu.Level, n)
		for b := range n {
			if a == b {
				continue
			}
			level, ret := r.devices[a].GetTopologyCommonAncestor(r.devices[b])
			if ret == nvml.SUCCESS {
				r.m.Levels[a][b] = levelOf(level)
			}
		}
	}
}

func levelOf(l nvml.GpuTopologyLevel) gpu.Level {
	switch l {
	case nvml.TOPOLOGY_INTERNAL:
		return gpu.LevelBoard
	case nvml.TOPOLOGY_SINGLE:
		return gpu.LevelSwitch
	case nvml.TOPOLOGY_MULTIPLE:
		return gpu.LevelSwitches
	case nvml.TOPOLOGY_HOSTBRIDGE:
		return gpu.LevelRoot
	case nvml.TOPOLOGY_NODE:
		return gpu.LevelNode
	case nvml.TOPOLOGY_SYSTEM:
		return gpu.LevelSystem
	}
	return gpu.LevelUnknown
}

// access asks which GPUs the driver does not let read each other's memory.
func (r *reader) access() {
	if !r.has("nvmlDeviceGetP2PStatus") {
		return
	}
	n := len(r.devices)
	r.m.Refused = make([][]string, n)
	for a := range n {
		r.m.Refused[a] = make([]string, n)
		for b := range n {
			if a == b {
				continue
			}
			status, ret := r.devices[a].GetP2PStatus(r.devices[b], nvml.P2P_CAPS_INDEX_READ)
			if ret == nvml.SUCCESS {
				r.m.Refused[a][b] = refusal(status)
			}
		}
	}
}

// refusal says why peers cannot reach each other, "" when they can or NVML does
// not know.
func refusal(s nvml.GpuP2PStatus) string {
	switch s {
	case nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:
		return "the chipset does not support it"
	case nvml.P2P_STATUS_GPU_NOT_SUPPORTED:
		return "the GPU does not support it"
	case nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED:
		return "they are on different sockets"
	case nvml.P2P_STATUS_DISABLED_BY_REGKEY:
		return "a setting of the driver forbids it"
	case nvml.P2P_STATUS_NOT_SUPPORTED:
		return "it is not supported"
	}
	return ""
}
