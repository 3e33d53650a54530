//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// dgx returns go-nvml's DGX A100, with what it leaves open: twelve NVLinks of each
// GPU to six switches, and two sockets.
func dgx() *dgxa100.Server {
	s := dgxa100.New()
	for i := range s.Devices {
		d := s.Devices[i].(*dgxa100.Device)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pci(d.PciBusID), nvml.SUCCESS }
		d.GetMemoryBusWidthFunc = func() (uint32, nvml.Return) { return 5120, nvml.SUCCESS }
		d.GetMaxClockInfoFunc = func(nvml.ClockType) (uint32, nvml.Return) { return 1215, nvml.SUCCESS }
		d.GetMaxPcieLinkGenerationFunc = func() (int, nvml.Return) { return 4, nvml.SUCCESS }
		d.GetMaxPcieLinkWidthFunc = func() (int, nvml.Return) { return 16, nvml.SUCCESS }
		d.GetCpuAffinityFunc = func(n int) ([]uint, nvml.Return) {
			mask := make([]uint, n/64)
			mask[i/4] = 0xff
			return mask, nvml.SUCCESS
		}
		d.GetMemoryAffinityFunc = func(n int, _ nvml.AffinityScope) ([]uint, nvml.Return) {
			mask := make([]uint, n/64)
			mask[0] = 1 << (i / 4)
			return mask, nvml.SUCCESS
		}
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkVersionFunc = func(int) (uint32, nvml.Return) { return 4, nvml.SUCCESS } // 3.0
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
			return pci(fmt.Sprintf("00000000:C%d:00.0", link/2)), nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(other nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			if j := other.(*dgxa100.Device).Index; i/2 == j/2 {
				return nvml.TOPOLOGY_SINGLE, nvml.SUCCESS
			} else if i/4 == j/4 {
				return nvml.TOPOLOGY_NODE, nvml.SUCCESS
			}
			return nvml.TOPOLOGY_SYSTEM, nvml.SUCCESS
		}
		d.GetP2PStatusFunc = func(nvml.Device, nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			return nvml.P2P_STATUS_OK, nvml.SUCCESS
		}
	}
	return s
}

func pci(address string) (p nvml.PciInfo) {
	for i, c := range []byte(address) {
		p.BusId[i] = c
	}
	return p
}

func device(s *dgxa100.Server, i int) *dgxa100.Device { return s.Devices[i].(*dgxa100.Device) }

// TestDGX: go-nvml's mock of a DGX A100 gives the graph that its data sheet gives.
func TestDGX(t *testing.T) {
	s := dgx()
	m, err := readFrom(s)
	if err != nil {
		t.Fatal(err)
	}
	if m.Driver != "550.54.15" || m.CUDA != 12040 || len(m.GPUs) != 8 {
		t.Fatalf("%+v", m)
	}
	g := m.GPUs[5]
	if g.UUID != device(s, 5).UUID || g.PCI != "0000:05:00.0" || g.NUMA != 1 || g.PCIeGeneration != 4 ||
		g.PCIeWidth != 16 || g.Memory != 42949672960 ||
		len(g.NVLinks) != 12 || g.NVLinks[3] != (gpu.NVLink{Version: 3, Remote: "0000:c1:00.0", Switch: true}) ||
		int(g.MemoryRate) != 1555 {
		t.Errorf("%+v", g)
	}
	if !slices.Equal(g.CPUs, []int{64, 65, 66, 67, 68, 69, 70, 71}) {
		t.Errorf("cores %v", g.CPUs)
	}
	if m.Levels[0][1] != gpu.LevelSwitch || m.Levels[0][3] != gpu.LevelNode || m.Levels[7][0] != gpu.LevelSystem {
		t.Errorf("levels %v", m.Levels)
	}
	var devices []string
	for _, g := range gpu.InOrder(m.GPUs) {
		devices = append(devices, g.UUID)
	}
	got, err := gpu.Graph(m, devices, nil)
	want, _ := topo.Machine("dgxa100")
	if err != nil || !slices.Equal(got.Links, want.Links) || len(got.Ports) != len(want.Ports) {
		t.Errorf("%v\n%v\nwant\n%v", err, got, want)
	}
}

// Without NVLinks, and with a pair that the driver keeps apart, PCIe is what there is.
func TestPCIeOnly(t *testing.T) {
	s := dgx()
	for i := range s.Devices {
		d := device(s, i)
		d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		d.GetP2PStatusFunc = func(other nvml.Device, _ nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			if i/4 != other.(*dgxa100.Device).Index/4 {
				return nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, nvml.SUCCESS
			}
			return nvml.P2P_STATUS_OK, nvml.SUCCESS
		}
	}
	m, err := readFrom(s)
	if err != nil {
		t.Fatal(err)
	}
	if m.Refused[0][7] != "they are on different sockets" || m.Refused[0][1] != "" {
		t.Errorf("%q", m.Refused)
	}
	g, err := gpu.Graph(m, []string{m.GPUs[0].UUID, m.GPUs[1].UUID, m.GPUs[4].UUID}, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := ""
	for _, l := range g.Links {
		kinds += l.Kind + " "
	}
	if kinds != "pcie host host " || g.Links[0].Source != topo.Declared {
		t.Errorf("links %v", g.Links)
	}
}

// What NVML cannot tell is left open; what treerun needs is an error that names call
// and GPU.
func TestPartial(t *testing.T) {
	s := dgx()
	s.LookupSymbolFunc = func(string) error { return errors.New("an old library") }
	d := device(s, 2)
	d.GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
	d.GetMaxPcieLinkWidthFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetCpuAffinityFunc = func(int) ([]uint, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{Domain: 1, Bus: 0x8a}, nvml.SUCCESS }
	m, err := readFrom(s)
	if err != nil {
		t.Fatal(err)
	}
	if g := m.GPUs[2]; g.Name == "" || g.PCIeWidth != 0 || g.CPUs != nil || g.NUMA != -1 || g.PCI != "0001:8a:00.0" ||
		g.MemoryRate != 0 {
		t.Errorf("%+v", g)
	}
	if m.Refused != nil {
		t.Error("an old library tells of peer access")
	}

	s = dgx()
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 3 {
			return nil, nvml.ERROR_NO_PERMISSION // not this container's
		}
		return s.Devices[i], nvml.SUCCESS
	}
	if m, err = readFrom(s); err != nil || len(m.GPUs) != 7 || m.GPUs[3].Index != 4 {
		t.Errorf("%v, %v", m, err)
	}

	s = dgx()
	device(s, 6).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	if _, err := readFrom(s); err == nil || !strings.Contains(err.Error(), "nvmlDeviceGetUUID of GPU 6") {
		t.Errorf("error %v", err)
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 1 << 20, nvml.SUCCESS }
	if _, err := readFrom(s); err == nil || !strings.Contains(err.Error(), "1048576 GPUs") {
		t.Errorf("error %v", err)
	}
}

func TestMIG(t *testing.T) {
	s := dgx()
	device(s, 1).SetMigMode(1)
	m, err := readFrom(s)
	if err != nil || !m.GPUs[1].MIG || m.GPUs[0].MIG {
		t.Errorf("%+v, %v", m, err)
	}
}

// Every reason not to be asked is ErrUnavailable, in words of its own.
func TestUnavailable(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "cannot be loaded", nvml.ERROR_DRIVER_NOT_LOADED: "is not loaded",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "restart the host",
		nvml.ERROR_NO_PERMISSION:           "/dev/nvidiactl", nvml.ERROR_UNKNOWN: "nvmlInit",
	} {
		s := dgx()
		s.InitFunc = func() nvml.Return { return ret }
		if _, err := readFrom(s); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", ret, err, want)
		} else if broken := ret != nvml.ERROR_LIBRARY_NOT_FOUND &&
			ret != nvml.ERROR_DRIVER_NOT_LOADED; errors.Is(err, ErrBroken) != broken {
			t.Errorf("%v: error %v", ret, err)
		}
	}
}
