package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// fake is a library whose functions are here. Handles are a GPU's index and 1.
type fake struct {
	*library
	functions map[string]func(args []uintptr) result
}

// returnsNumber makes a function that returns a number.
func (f *fake) returnsNumber(n int) func([]uintptr) result {
	return func([]uintptr) result {
		binary.NativeEndian.PutUint64(f.reply, uint64(n))
		return success
	}
}

// returnsText makes a function that returns a text; in a PCI device the text is at offset 36.
func (f *fake) returnsText(format string, at int) func([]uintptr) result {
	return func(args []uintptr) result {
		text := format
		if strings.Contains(format, "%") {
			text = fmt.Sprintf(format, args[0]-1)
		}
		copy(f.reply[at:], text+"\x00")
		return success
	}
}

func returns(ret result) func([]uintptr) result { return func([]uintptr) result { return ret } }

// only replaces a function for one GPU.
func (f *fake) only(i int, name string, function func([]uintptr) result) {
	others := f.functions[name]
	f.functions[name] = func(args []uintptr) result {
		if args[0] == uintptr(i)+1 {
			return function(args)
		}
		return others(args)
	}
}

// dgx returns a DGX A100: twelve NVLinks of each GPU to six switches, and two sockets.
func dgx() *fake {
	f := &fake{library: &library{reply: make([]byte, 4096), why: func(ret result) string { return fmt.Sprint(int(ret)) }}}
	f.call = func(name string, args ...uintptr) result {
		if function := f.functions[name]; function != nil {
			return function(args)
		}
		return functionNotFound
	}
	f.functions = map[string]func(args []uintptr) result{
		"nvmlInit_v2":                        returns(success),
		"nvmlShutdown":                       returns(success),
		"nvmlSystemGetDriverVersion":         f.returnsText("550.54.15", 0),
		"nvmlSystemGetCudaDriverVersion":     f.returnsNumber(12040),
		"nvmlDeviceGetCount_v2":              f.returnsNumber(8),
		"nvmlDeviceGetHandleByIndex_v2":      func(args []uintptr) result { return f.returnsNumber(int(args[0]) + 1)(nil) },
		"nvmlDeviceGetUUID":                  f.returnsText("GPU-00000000-0000-0000-0000-%012d", 0),
		"nvmlDeviceGetName":                  f.returnsText("NVIDIA A100-SXM4-40GB", 0),
		"nvmlDeviceGetPciInfo_v3":            f.returnsText("00000000:%02x:00.0", 36),
		"nvmlDeviceGetMemoryInfo":            f.returnsNumber(42949672960),
		"nvmlDeviceGetMigMode":               f.returnsNumber(0),
		"nvmlDeviceGetMemoryBusWidth":        f.returnsNumber(5120),
		"nvmlDeviceGetMaxClockInfo":          f.returnsNumber(1215),
		"nvmlDeviceGetMaxPcieLinkGeneration": f.returnsNumber(4),
		"nvmlDeviceGetMaxPcieLinkWidth":      f.returnsNumber(16),
		"nvmlDeviceGetCpuAffinity": func(args []uintptr) result {
			f.reply[(args[0]-1)/4*8] = 0xff
			return success
		},
		"nvmlDeviceGetMemoryAffinity": func(args []uintptr) result { return f.returnsNumber(1 << ((args[0] - 1) / 4))(nil) },
		"nvmlDeviceGetNvLinkState": func(args []uintptr) result {
			if args[1] >= 12 {
				return invalidArgument
			}
			return f.returnsNumber(1)(nil)
		},
		"nvmlDeviceGetNvLinkVersion": f.returnsNumber(4), // 3.0
		"nvmlDeviceGetNvLinkRemotePciInfo_v2": func(args []uintptr) result {
			return f.returnsText(fmt.Sprintf("00000000:C%d:00.0", args[1]/2), 36)(nil)
		},
		"nvmlDeviceGetNvLinkRemoteDeviceType": f.returnsNumber(2),
		"nvmlDeviceGetTopologyCommonAncestor": func(args []uintptr) result {
			switch i, j := args[0]-1, args[1]-1; {
			case i/2 == j/2:
				return f.returnsNumber(10)(nil)
			case i/4 == j/4:
				return f.returnsNumber(40)(nil)
			}
			return f.returnsNumber(50)(nil)
		},
		"nvmlDeviceGetP2PStatus": f.returnsNumber(0),
	}
	return f
}

// TestDGX: NVML's answers on a DGX A100 give the graph of its data sheet.
func TestDGX(t *testing.T) {
	s := dgx()
	m, err := readFrom(s.library)
	if err != nil {
		t.Fatal(err)
	}
	if m.Driver != "550.54.15" || m.CUDA != 12040 || len(m.GPUs) != 8 {
		t.Fatalf("%+v", m)
	}
	g := m.GPUs[5]
	const uuid = "GPU-00000000-0000-0000-0000-000000000005"
	if g.UUID != uuid || g.PCI != "0000:05:00.0" || g.NUMA != 1 || g.PCIeGeneration != 4 ||
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

// In a virtual machine NVML does not show the switches: the graph is the same, and the user gets a note.
func TestHiddenSwitches(t *testing.T) {
	for _, end := range []func(s *fake) func([]uintptr) result{
		func(s *fake) func([]uintptr) result { return s.returnsText("FFFFFFF:FFFF:FF", 36) },
		func(*fake) func([]uintptr) result { return returns(3) }, // not supported
	} {
		s := dgx()
		want, err := readFrom(s.library)
		if err != nil {
			t.Fatal(err)
		}
		s.functions["nvmlDeviceGetNvLinkRemoteDeviceType"] = s.returnsNumber(255) // unknown
		s.functions["nvmlDeviceGetNvLinkRemotePciInfo_v2"] = end(s)
		got, err := readFrom(s.library)
		if err != nil {
			t.Fatal(err)
		}
		var devices []string
		for _, g := range got.GPUs {
			devices = append(devices, g.UUID)
			if text := g.String(); !strings.Contains(text, "12 NVLinks 3.0 to NVSwitches (inferred: ") {
				t.Error(text)
			}
		}
		a, err1 := gpu.Graph(want, devices, nil)
		b, err2 := gpu.Graph(got, devices, nil)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%v, %v\n%v\nwant\n%v", err1, err2, b, a)
		}
		// One that is not like the others, and one whose link ends at a GPU that this host does not show.
		s.only(3, "nvmlDeviceGetNvLinkVersion", s.returnsNumber(6))
		if m, err := readFrom(s.library); err != nil || m.GPUs[0].NVLinks[0].Switch {
			t.Errorf("%v, %v", m, err)
		}
		s = dgx()
		s.functions["nvmlDeviceGetNvLinkRemoteDeviceType"] = s.returnsNumber(0)
		if m, err := readFrom(s.library); err != nil || m.GPUs[0].NVLinks[0].Switch {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// Without NVLinks, and with a pair that the driver keeps apart, only PCIe is left.
func TestPCIeOnly(t *testing.T) {
	s := dgx()
	s.functions["nvmlDeviceGetNvLinkState"] = returns(3) // not supported
	s.functions["nvmlDeviceGetP2PStatus"] = func(args []uintptr) result {
		if (args[0]-1)/4 != (args[1]-1)/4 {
			return s.returnsNumber(3)(nil) // not between sockets
		}
		return s.returnsNumber(0)(nil)
	}
	m, err := readFrom(s.library)
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

// A value that NVML cannot report is left open; a value that treerun needs is an error that names call and GPU.
func TestPartial(t *testing.T) {
	s := dgx()
	for _, name := range []string{"MigMode", "MemoryBusWidth", "MaxClockInfo", "MemoryAffinity", "NvLinkRemoteDeviceType",
		"P2PStatus"} {
		delete(s.functions, "nvmlDeviceGet"+name) // an old library
	}
	s.only(2, "nvmlDeviceGetName", returns(999))
	s.only(2, "nvmlDeviceGetMaxPcieLinkWidth", returns(3))
	s.only(2, "nvmlDeviceGetCpuAffinity", returns(3))
	s.only(2, "nvmlDeviceGetPciInfo_v3", func([]uintptr) result {
		binary.NativeEndian.PutUint32(s.reply[16:], 1)
		binary.NativeEndian.PutUint32(s.reply[20:], 0x8a)
		return success
	})
	m, err := readFrom(s.library)
	if err != nil {
		t.Fatal(err)
	}
	if g := m.GPUs[2]; g.Name == "" || g.PCIeWidth != 0 || g.CPUs != nil || g.NUMA != -1 || g.PCI != "0001:8a:00.0" ||
		g.MemoryRate != 0 {
		t.Errorf("%+v", g)
	}
	if m.Refused != nil {
		t.Error("an old library reports peer access")
	}

	s = dgx()
	handle := s.functions["nvmlDeviceGetHandleByIndex_v2"]
	s.functions["nvmlDeviceGetHandleByIndex_v2"] = func(args []uintptr) result {
		if args[0] == 3 {
			return noPermission // not this container's
		}
		return handle(args)
	}
	if m, err = readFrom(s.library); err != nil || len(m.GPUs) != 7 || m.GPUs[3].Index != 4 {
		t.Errorf("%v, %v", m, err)
	}

	s = dgx()
	s.only(6, "nvmlDeviceGetUUID", returns(15))
	if _, err := readFrom(s.library); err == nil || !strings.Contains(err.Error(), "nvmlDeviceGetUUID of GPU 6") {
		t.Errorf("error %v", err)
	}
	s.functions["nvmlDeviceGetCount_v2"] = s.returnsNumber(1 << 20)
	if _, err := readFrom(s.library); err == nil || !strings.Contains(err.Error(), "1048576 GPUs") {
		t.Errorf("error %v", err)
	}
}

func TestMIG(t *testing.T) {
	s := dgx()
	s.only(1, "nvmlDeviceGetMigMode", s.returnsNumber(1))
	m, err := readFrom(s.library)
	if err != nil || !m.GPUs[1].MIG || m.GPUs[0].MIG {
		t.Errorf("%+v, %v", m, err)
	}
}

// Every reason for which NVML cannot be queried is ErrUnavailable, with a text of its own.
func TestUnavailable(t *testing.T) {
	for ret, want := range map[result]string{
		libraryNotFound: "cannot be loaded", driverNotLoaded: "is not loaded", versionMismatch: "restart the host",
		noPermission: "/dev/nvidiactl", 999: "nvmlInit",
	} {
		s := dgx()
		s.functions["nvmlInit_v2"] = returns(ret)
		if _, err := readFrom(s.library); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", ret, err, want)
		} else if broken := ret != libraryNotFound && ret != driverNotLoaded; errors.Is(err, ErrBroken) != broken {
			t.Errorf("%v: error %v", ret, err)
		}
	}
}

// FuzzRead: any answers of the library give a machine, or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte{0, 2, 0, 0, 0, 0xff}, byte(0))
	f.Add([]byte("12345678\xff\xff\xff\xff"), byte(9))
	f.Fuzz(func(t *testing.T, data []byte, refused byte) {
		s, calls := dgx(), 0
		s.call = func(name string, _ ...uintptr) result {
			if calls++; calls > 1 && calls%(int(refused)+2) == 0 {
				return result(refused)
			}
			if len(data) > 0 && calls > 1 {
				copy(s.reply, data[calls%len(data):])
			}
			return success
		}
		if m, err := readFrom(s.library); err == nil && m.Validate() != nil {
			t.Errorf("%+v", m)
		}
	})
}
