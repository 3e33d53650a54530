package nvml

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/treerun/treerun/topo/gpu"
)

// mu lets one goroutine query at a time.
var mu sync.Mutex

// Read queries NVML about all GPUs of this host. The Machine is the caller's. An error is ErrUnavailable where there is
// no driver; else it names the call of NVML and the GPU. Goroutines may call it at the same time; it takes some
// milliseconds, and up to seconds where no program keeps the driver awake.
func Read() (*gpu.Machine, error) {
	mu.Lock()
	defer mu.Unlock()
	l, err := open()
	if err != nil {
		return nil, err
	}
	return readFrom(l)
}

// readFrom queries a library.
func readFrom(l *library) (*gpu.Machine, error) {
	switch ret := l.call("nvmlInit_v2"); ret {
	case success:
	case libraryNotFound:
		return nil, fmt.Errorf("%w: libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver is installed, or this container "+
			"does not have it", ErrUnavailable)
	case driverNotLoaded:
		return nil, fmt.Errorf("%w: the NVIDIA driver is not loaded (hint: lsmod, dmesg)", ErrUnavailable)
	case versionMismatch:
		return nil, fmt.Errorf("%w: %w: libnvidia-ml.so.1 and the loaded driver have different versions: the driver was "+
			"updated (hint: restart the host)", ErrUnavailable, ErrBroken)
	case noPermission:
		return nil, fmt.Errorf("%w: %w: no permission (hint: may this user open /dev/nvidiactl?)", ErrUnavailable, ErrBroken)
	default:
		return nil, fmt.Errorf("%w: %w: nvmlInit: %s", ErrUnavailable, ErrBroken, l.why(ret))
	}
	defer l.call("nvmlShutdown")
	r := &reader{library: l}
	return r.machine()
}

// reader queries one library.
type reader struct {
	*library
	devices []uintptr // handles
	m       gpu.Machine
}

func (r *reader) machine() (*gpu.Machine, error) {
	n, ret := r.number("nvmlDeviceGetCount_v2", r.at)
	if ret != success {
		return nil, fmt.Errorf("nvmlDeviceGetCount: %s", r.why(ret))
	}
	if n < 0 || n > gpu.MaxGPUs {
		return nil, fmt.Errorf("nvmlDeviceGetCount: %d GPUs, at most %d are possible", n, gpu.MaxGPUs)
	}
	r.m.Driver, _ = r.text("nvmlSystemGetDriverVersion", r.at, textSize)
	r.m.CUDA, _ = r.number("nvmlSystemGetCudaDriverVersion", r.at)
	for i := range n {
		_, ret := r.number("nvmlDeviceGetHandleByIndex_v2", uintptr(i), r.at)
		d := uintptr(binary.NativeEndian.Uint64(r.reply))
		switch ret {
		case success:
		case noPermission: // a container that does not have this one
			continue
		default:
			return nil, fmt.Errorf("nvmlDeviceGetHandleByIndex of GPU %d: %s", i, r.why(ret))
		}
		g, err := r.gpu(i, d)
		if err != nil {
			return nil, err
		}
		r.devices, r.m.GPUs = append(r.devices, d), append(r.m.GPUs, g)
	}
	r.m.InferSwitches()
	r.pairs()
	if err := r.m.Validate(); err != nil {
		return nil, fmt.Errorf("the report of NVML: %w", err)
	}
	return &r.m, nil
}

// gpu queries one GPU. Only the failure of a query that treerun cannot do without is an error.
func (r *reader) gpu(i int, d uintptr) (gpu.GPU, error) {
	g := gpu.GPU{Index: i, NUMA: -1}
	var ret result
	if g.UUID, ret = r.text("nvmlDeviceGetUUID", d, r.at, textSize); ret != success {
		return g, fmt.Errorf("nvmlDeviceGetUUID of GPU %d: %s", i, r.why(ret))
	}
	pci, ret := r.pci("nvmlDeviceGetPciInfo_v3", d, r.at)
	if ret != success {
		return g, fmt.Errorf("nvmlDeviceGetPciInfo of GPU %d: %s", i, r.why(ret))
	}
	g.PCI = gpu.NormalPCI(pci)
	if g.Name, ret = r.text("nvmlDeviceGetName", d, r.at, textSize); ret != success {
		g.Name = "unknown GPU"
	}
	if _, ret := r.number("nvmlDeviceGetMemoryInfo", d, r.at); ret == success {
		g.Memory = int64(binary.NativeEndian.Uint64(r.reply))
	}
	mig, ret := r.number("nvmlDeviceGetMigMode", d, r.at, r.at+8) // now, and from the next restart on
	g.MIG = ret == success && mig == 1
	g.MemoryRate = r.memoryRate(d)
	// The maximum of the GPU and its slot: the current values are lower while the GPU is idle.
	g.PCIeGeneration = r.numberOr(0, "nvmlDeviceGetMaxPcieLinkGeneration", d, r.at)
	g.PCIeWidth = r.numberOr(0, "nvmlDeviceGetMaxPcieLinkWidth", d, r.at)
	if g.CPUs, ret = r.set(maxCPUs, "nvmlDeviceGetCpuAffinity", d, maxCPUs/64, r.at); ret != success {
		g.CPUs = nil
	}
	// The node whose memory is near according to NVML, unless it names none or several.
	nodes, ret := r.set(maxNodes, "nvmlDeviceGetMemoryAffinity", d, maxNodes/64, r.at, 0) // 0: of nodes
	if ret == success && len(nodes) == 1 {
		g.NUMA = nodes[0]
	} else {
		g.NUMA = linuxNUMA(g.PCI)
	}
	g.NVLinks = r.nvlinks(d)
	return g, nil
}

// The largest numbers of cores, NUMA nodes and NVLinks in queries of NVML.
const (
	maxCPUs  = 4096
	maxNodes = 1024
	maxLinks = 18
)

// numberOr is number, or a default where the library returns an error.
func (r *reader) numberOr(otherwise int, name string, args ...uintptr) int {
	if n, ret := r.number(name, args...); ret == success {
		return n
	}
	return otherwise
}

// memoryRate returns the bandwidth of the GPU's memory in GB/s: two transfers per cycle of its fastest clock over the
// width of its bus; 0 when NVML does not report these.
func (r *reader) memoryRate(d uintptr) float64 {
	const memory = 2 // NVML_CLOCK_MEM
	width := r.numberOr(0, "nvmlDeviceGetMemoryBusWidth", d, r.at)
	clock := r.numberOr(0, "nvmlDeviceGetMaxClockInfo", d, memory, r.at) // MHz
	return 2 * float64(clock) * 1e6 * float64(width) / 8 / 1e9
}

// nvlinks returns the active NVLinks of a GPU.
func (r *reader) nvlinks(d uintptr) []gpu.NVLink {
	const toSwitch = 2 // NVML_NVLINK_DEVICE_TYPE_SWITCH
	var list []gpu.NVLink
	for i := range uintptr(maxLinks) {
		if active, ret := r.number("nvmlDeviceGetNvLinkState", d, i, r.at); ret != success || active != 1 {
			if ret == invalidArgument {
				break // it has no such link, nor any after it
			}
			continue
		}
		l := gpu.NVLink{
			Version: meaning(generations, r.numberOr(0, "nvmlDeviceGetNvLinkVersion", d, i, r.at)),
			Switch:  r.numberOr(0, "nvmlDeviceGetNvLinkRemoteDeviceType", d, i, r.at) == toSwitch,
		}
		if pci, ret := r.pci("nvmlDeviceGetNvLinkRemotePciInfo_v2", d, i, r.at); ret == success {
			l.Remote = gpu.NormalPCI(pci)
		}
		list = append(list, l)
	}
	return list
}

// The meanings of numbers of NVML (nvml.h).
var (
	// NVML_NVLINK_VERSION_*, which count revisions, as generations of NVLink: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0 and 5.0.
	generations = []int{0, 1, 2, 2, 3, 3, 4, 5}
	// NVML_TOPOLOGY_*, in tens.
	levels = []gpu.Level{gpu.LevelBoard, gpu.LevelSwitch, gpu.LevelSwitches, gpu.LevelRoot, gpu.LevelNode, gpu.LevelSystem}
	// NVML_P2P_STATUS_*: why peers cannot reach each other.
	refusals = []string{"", "the chipset does not support it", "the GPU does not support it",
		"they are on different sockets", "a setting of the driver forbids it", "it is not supported"}
)

// meaning returns the meaning of a number, the zero value where it is not known.
func meaning[T any](list []T, number int) (m T) {
	if number >= 0 && number < len(list) {
		m = list[number]
	}
	return m
}

// pairs reads, for every pair of GPUs, their level on PCIe and whether the driver lets them read each other's memory.
func (r *reader) pairs() {
	const toRead = 0 // NVML_P2P_CAPS_INDEX_READ
	n, old := len(r.devices), false
	r.m.Levels, r.m.Refused = make([][]gpu.Level, n), make([][]string, n)
	for a, first := range r.devices {
		r.m.Levels[a], r.m.Refused[a] = make([]gpu.Level, n), make([]string, n)
		for b, second := range r.devices {
			if a == b {
				continue
			}
			level := r.numberOr(-10, "nvmlDeviceGetTopologyCommonAncestor", first, second, r.at)
			r.m.Levels[a][b] = meaning(levels, level/10)
			status, ret := r.number("nvmlDeviceGetP2PStatus", first, second, toRead, r.at)
			if ret == success {
				r.m.Refused[a][b] = meaning(refusals, status)
			}
			old = old || ret == functionNotFound
		}
	}
	if old {
		r.m.Refused = nil
	}
}
