//go:build linux

package check

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/topo/gpu"
)

// healthy returns a host with two GPUs and no fault.
func healthy() *System {
	m := &gpu.Machine{Driver: "550.54", GPUs: []gpu.GPU{
		{Index: 0, UUID: "GPU-a", Name: "V100", PCI: "0000:06:00.0", Memory: 16 << 30, PCIeGeneration: 3, PCIeWidth: 16,
			NVLinks: make([]gpu.NVLink, 2)},
		{Index: 1, UUID: "GPU-b", Name: "V100", PCI: "0000:07:00.0", Memory: 16 << 30, NUMA: -1},
	}}
	return &System{
		Devices: func() (string, Devices, error) {
			return "12.4", Devices{"GPU-b": nil, "GPU-a": nil}, nil
		},
		Machine: func() (*gpu.Machine, error) { return m, nil },
		Kernel:  func() (int, error) { return 2, nil },
		Peers: func(m *gpu.Machine) (*peers.HostResult, error) {
			r := &peers.HostResult{Ranks: []int{0, 1}}
			r.Machine, r.Devices = m, []string{"GPU-a", "GPU-b"}
			r.Found = []gpu.Finding{{A: 0, B: 1, GBytesPerSecond: 46.25, LatencyUs: 2}}
			return r, nil
		},
		Limits: func() Limits {
			return Limits{Locked: math.MaxUint64, Files: 1 << 16, MaxFiles: 1 << 20,
				Processes: math.MaxUint64, Addresses: math.MaxUint64, Cores: 8, Usable: 8, DevShm: 64 << 20}
		},
		Network: func() ([]iface.Device, error) {
			return []iface.Device{{Name: "eth0", Kind: iface.Ethernet, Up: true, Speed: 10000, MTU: 1500,
				Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24")}}}, nil
		},
	}
}

// found replaces the findings of the ranks of a host.
func found(f ...gpu.Finding) func(*System) {
	return func(h *System) {
		before := h.Peers
		h.Peers = func(m *gpu.Machine) (*peers.HostResult, error) {
			r, err := before(m)
			r.Found, r.Dropped = f, gpu.Dropped(f)
			return r, err
		}
	}
}

// limit changes the limits of a host.
func limit(change func(*Limits)) func(*System) {
	return func(h *System) {
		l := h.Limits()
		change(&l)
		h.Limits = func() Limits { return l }
	}
}

// devices changes the network devices of a host.
func devices(list ...iface.Device) func(*System) {
	return func(h *System) { h.Network = func() ([]iface.Device, error) { return list, nil } }
}

// loopback is a device that reaches no other host.
var loopback = iface.Device{Name: "lo", Kind: iface.Loopback, Up: true, MTU: 65536,
	Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}

// wide returns a device with the given number of addresses.
func wide(addresses int) iface.Device {
	d := iface.Device{Name: "eth0", Up: true, MTU: 1500}
	for i := range addresses {
		d.Addrs = append(d.Addrs, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), 24))
	}
	return d
}

// check is a host and the lines about it.
type check struct {
	name    string
	changes []func(*System)
	code    int
	want    []string
}

// checks returns a host without faults and hosts with faults.
func checks() []check {
	none := fmt.Errorf("%w: no driver", cuda.ErrUnavailable)
	noDriver := func(h *System) { h.Devices = func() (string, Devices, error) { return "", nil, none } }
	noNVML := func(h *System) {
		h.Machine = func() (*gpu.Machine, error) { return nil, fmt.Errorf("%w: no library", nvml.ErrUnavailable) }
	}
	noKernel := func(h *System) { h.Kernel = func() (int, error) { return 0, nil } }
	return []check{
		{"all well", nil, 0, []string{
			"ok     driver         CUDA 12.4, 2 GPUs\n", "ok     nvml           driver 550.54, 2 GPUs\n",
			"ok     gpu 0          V100, GPU-a, 0000:06:00.0, 16 GiB, NUMA node 0, PCIe 3.0 x16, 2 NVLinks\n",
			"ok     gpu 1          V100, GPU-b, 0000:07:00.0, 16 GiB\n",
			"ok     peers          1 pair: 1 read each other's memory\n",
			"ok     ipc            2 processes opened each other's device memory\n",
			"ok     locked memory  unlimited\n", "ok     open files     65536, at most 1048576\n", "which has 64 MiB\n",
			"ok     cores          8\n", "ok     network        10.0.0.3 (eth0, 10000 Mbit/s",
		}},
		{"no GPU", []func(*System){noDriver, noNVML, noKernel}, 0,
			[]string{"none   gpu            no NVIDIA GPU that this process could use: no usable CUDA driver: no driver\n",
				"ok     locked memory"}},
		{"no driver in this container", []func(*System){noDriver, noNVML}, 1,
			[]string{"WRONG  driver", "compute capability", "WRONG  nvml", "utility"}},
		{"no permission", []func(*System){noDriver, noKernel, func(h *System) {
			h.Machine = func() (*gpu.Machine, error) {
				return nil, fmt.Errorf("%w: %w: denied", nvml.ErrUnavailable, nvml.ErrBroken)
			}
		}}, 1, []string{"WRONG  driver", "WRONG  nvml", "denied"}},
		{"no NVML", []func(*System){noNVML}, 1, []string{"ok     driver", "WRONG  nvml"}},
		{"a GPU that CUDA does not show", []func(*System){func(h *System) {
			h.Devices = func() (string, Devices, error) { return "12.4", Devices{"GPU-a": nil}, nil }
		}}, 1, []string{"ok     gpu 0", "WRONG  gpu 1", "Xid"}},
		{"no memory operations", []func(*System){func(h *System) {
			h.Devices = func() (string, Devices, error) {
				return "12.4", Devices{"GPU-a": cuda.ErrNotSupported, "GPU-b": nil}, nil
			}
		}}, 1, []string{"WRONG  gpu 0", "cannot use: not supported", "(remedy: a driver from 515 on (CUDA 11.7), on Linux)"}},
		{"memory operations that fail otherwise", []func(*System){func(h *System) {
			h.Devices = func() (string, Devices, error) {
				return "12.4", Devices{"GPU-a": cuda.ErrOutOfMemory, "GPU-b": nil}, nil
			}
		}}, 1, []string{"WRONG  gpu 0", "cannot use: out of memory\n"}},
		{"MPS", []func(*System){func(h *System) { h.MPS = true }}, 0, []string{"note   mps", "--ranks-per-gpu without MPS"}},
		{"cut into instances", []func(*System){func(h *System) { m, _ := h.Machine(); m.GPUs[1].MIG = true }}, 0,
			[]string{"note   gpu 1", "nvidia-smi -i 1 -mig 0"}},
		{"a wrong link", []func(*System){found(gpu.Finding{A: 0, B: 1, Fault: "wrong data"})}, 1,
			[]string{"WRONG  peers", "the link of ranks 0 and 1 (GPU-a, GPU-b) is not used: wrong data\n",
				"ok     ipc", "iommu=pt"}},
		{"peers that the driver refuses", []func(*System){found(gpu.Finding{A: 0, B: 1, Fault: "no", Refused: true})}, 0,
			[]string{"ok     peers", "1 cannot according to the driver"}},
		{"containers apart", []func(*System){found(gpu.Finding{A: 0, B: 1, Fault: "invalid handle", Unopened: true})}, 1,
			[]string{"ok     peers", "WRONG  ipc            in 1 pair", "invalid handle", "--ipc=host --pid=host"}},
		{"ranks fail", []func(*System){func(h *System) {
			h.Peers = func(*gpu.Machine) (*peers.HostResult, error) { return nil, errors.New("failed with code 3") }
		}}, 1, []string{"WRONG  peers          failed with code 3\n"}},
		{"little locked memory", []func(*System){limit(func(l *Limits) { l.Locked = 64 << 10 })}, 1,
			[]string{"WRONG  locked memory  64 KiB: 2 GPUs pin about 128 MiB (remedy: ulimit -l unlimited"}},
		{"little locked memory without GPU", []func(*System){noDriver, noNVML, noKernel,
			limit(func(l *Limits) { l.Locked = 64 << 10 })}, 0, []string{"ok     locked memory  64 KiB\n"}},
		{"few files", []func(*System){limit(func(l *Limits) { l.Files = 128 })}, 1,
			[]string{"WRONG  open files     128, at most 1048576: about 384 for 8 ranks (remedy: ulimit -n 384)\n"}},
		{"64 addresses", []func(*System){limit(func(l *Limits) { l.Files = 9 }), devices(wide(64))}, 1, []string{" 2304 "}},
		{"no shared memory", []func(*System){limit(func(l *Limits) { l.Shared = errors.New("fallocate: no memory") })}, 1,
			[]string{"WRONG  shared memory  fallocate: no memory"}},
		{"a share of a core", []func(*System){limit(func(l *Limits) { l.Usable = 1 })}, 0,
			[]string{"note   cores          CPU time of 1, of 8 usable ones: 2 GPUs are fed by fewer cores"}},
		{"no network", []func(*System){devices()}, 0,
			[]string{"note   network        no address for other hosts: no device at all"}},
		{"the loopback only", []func(*System){devices(loopback)}, 0,
			[]string{"note   network        no address for other hosts: lo 127.0.0.1/8 (remedy: switch a device on"}},
		{"the loopback down", []func(*System){devices(iface.Device{Name: "lo", Kind: iface.Loopback},
			iface.Device{Name: "eth0", Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.4/24")}})}, 1, []string{
			"WRONG  network        ranks on one host reach each other over lo: lo (down), eth0 10.0.0.4/24 (remedy: ip link "}},
		{"unreadable network", []func(*System){func(h *System) {
			h.Network = func() ([]iface.Device, error) {
				return nil,
					errors.New("denied")
			}
		}}, 1, []string{"WRONG  network        denied"}},
	}
}

func TestCheck(t *testing.T) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			h := healthy()
			for _, change := range c.changes {
				change(h)
			}
			var b bytes.Buffer
			code, err := Main(&b, nil, h)
			if err != nil || code != c.code {
				t.Errorf("code %d, %v, want %d", code, err, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("no %q in\n%s", want, &b)
				}
			}
		})
	}
}

// failing is a writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestMainArguments(t *testing.T) {
	for _, args := range [][]string{{"--color"}, {"now"}, {"-np", "4"}, {"--push"}} {
		if _, err := Main(new(bytes.Buffer), args, healthy()); err == nil || !strings.Contains(err.Error(), "check: ") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := Main(failing{}, nil, healthy()); err == nil || err.Error() != "no room" {
		t.Errorf("%v", err)
	}
}
