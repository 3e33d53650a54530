package gpus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/topo/gpu"
)

// machine has four GPUs of one kind, numbered across two NUMA nodes.
func machine() *gpu.Machine {
	m := &gpu.Machine{}
	for i, pci := range []string{"0000:0b:00.0", "0000:84:00.0", "0000:06:00.0", "0000:8a:00.0"} {
		m.GPUs = append(m.GPUs, gpu.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%d%d-x", i, i), Name: "V100", PCI: pci, NUMA: i % 2,
			CPUs: []int{4 * (i % 2), 4*(i%2) + 1},
		})
	}
	return m
}

// numbers formats the GPUs of a plan by rank, and those that ranks see.
func (p *Plan) numbers() string {
	var b strings.Builder
	visible := make(map[string]bool)
	for _, r := range p.Ranks {
		fmt.Fprint(&b, r.GPU.Index)
		visible[r.Visible] = true
	}
	for _, list := range slices.Sorted(maps.Keys(visible)) {
		fmt.Fprint(&b, strings.TrimRight(" "+list, " "))
	}
	if p.Notice != "" {
		b.WriteString(" (" + p.Notice + ")")
	}
	return b.String()
}

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name    string
		request Request
		ranks   int
		visible string
		want    string // or the error's words
	}{
		{"one each, by NUMA node and PCI address", Request{}, 4, "-", "2013"},
		{"fewer ranks than GPUs", Request{}, 1, "-", "2"},
		{"two on each", Request{PerGPU: 2}, 7, "-", "2200113"},
		{"more ranks than GPUs", Request{}, 5, "-",
			" (5 ranks and 4 GPUs: --ranks-per-gpu 2 lets them share; now they get none " +
				"(use --gpu-bind none if they need none))"},
		{"more than two on each", Request{PerGPU: 2}, 9, "-", "9 ranks and 4 GPUs: --ranks-per-gpu 3 lets them share"},
		{"a list keeps its order", Request{List: "3,0-1"}, 3, "-", "301 GPU-33-x,GPU-00-x,GPU-11-x"},
		{"a list by UUID and address", Request{List: "gpu-1,00000000:0B:00.0"}, 2, "-", "10 GPU-11-x,GPU-00-x"},
		{"a list outranks the variable", Request{List: "1"}, 1, "2", "1 GPU-11-x"},
		{"too short a list", Request{List: "1"}, 2, "-", "2 ranks and 1 GPU: --ranks-per-gpu 2 lets them share"},
		{"isolated", Request{Bind: Isolate, List: "1,2"}, 2, "-", "12 GPU-11-x GPU-22-x"},
		{"a GPU that there is not", Request{List: "4"}, 1, "-",
			"--gpus 4: this host has no GPU 4: it has 4 GPUs (hint: nvidia-smi -L lists them)"},
		{"one twice", Request{List: "1,GPU-1"}, 1, "-", "is given twice"},
		{"not one", Request{List: "GPU-"}, 1, "-", "beginning of several UUIDs"},
		{"the variable's numbers count by address", Request{}, 2, "0,3", "23"},
		{"and its UUIDs", Request{}, 2, "GPU-1,GPU-3", "13"},
		{"what follows an unknown one is hidden", Request{}, 1, "GPU-1,7,GPU-3", "1"},
		{"all hidden", Request{}, 2, "", ""},
		{"all hidden, and wanted", Request{PerGPU: 1}, 2, "-1", "CUDA_VISIBLE_DEVICES=-1 hides all 4"},
		{"one twice hides all", Request{}, 1, "1,1", "is given twice"},
		{"an instance", Request{}, 1, "MIG-12", "does not use MIG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := visibleDevices{value: c.visible, set: c.visible != "-"}
			p, err := assign(c.request, Share{Ranks: c.ranks, Total: c.ranks}, machine(), v)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Errorf("error %v, want %q", err, c.want)
				}
				return
			}
			if got := p.numbers(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Hosts that are one machine take different GPUs, if it has enough.
func TestAssignNeighbors(t *testing.T) {
	for _, c := range []struct {
		r    Request
		s    Share
		want string
	}{
		{Request{}, Share{2, 0, 4}, "20"}, {Request{}, Share{2, 2, 4}, "13"}, {Request{PerGPU: 2}, Share{3, 3, 6}, "011"},
		{Request{}, Share{4, 4, 8}, "2013"}, // each has GPUs of its own
	} {
		if p, err := assign(c.r, c.s, machine(), visibleDevices{}); err != nil || p.numbers() != c.want {
			t.Errorf("%+v %+v: %v, %v, want %s", c.r, c.s, p, err, c.want)
		}
	}
}

// GPUs of several kinds have numbers that are known only to CUDA.
func TestAssignMixed(t *testing.T) {
	m := machine()
	m.GPUs[1].Name = "T4"
	if _, err := assign(Request{}, Share{Ranks: 1, Total: 1}, m, visibleDevices{value: "0", set: true}); err == nil ||
		!strings.Contains(err.Error(), "CUDA_DEVICE_ORDER=PCI_BUS_ID") {
		t.Errorf("error %v", err)
	}
	for _, v := range []visibleDevices{{value: "1", set: true, pciOrder: true}, {value: "GPU-0", set: true}} {
		if p, err := assign(Request{}, Share{Ranks: 1, Total: 1}, m, v); err != nil || p.numbers() != "0" {
			t.Errorf("%+v: %v, %v", v, p, err)
		}
	}
}

// GPUs that are cut into instances are none.
func TestAssignMIG(t *testing.T) {
	m := machine()
	m.GPUs[2].MIG = true
	if p, err := assign(Request{}, Share{Ranks: 3, Total: 3}, m, visibleDevices{}); err != nil || p.numbers() != "013" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := assign(Request{List: "2"}, Share{Ranks: 1, Total: 1}, m, visibleDevices{}); err == nil ||
		!strings.Contains(err.Error(), "nvidia-smi -i 2 -mig 0") {
		t.Errorf("error %v", err)
	}
	for i := range m.GPUs {
		m.GPUs[i].MIG = true
	}
	if _, err := assign(Request{Bind: Isolate}, Share{Ranks: 1, Total: 1}, m, visibleDevices{}); err == nil ||
		!strings.Contains(err.Error(), "all 4 are cut") || cmdline.ExitCode(err) != cmdline.ExitInternal {
		t.Errorf("error %v", err)
	}
}

func TestRequestCheck(t *testing.T) {
	for _, r := range []Request{{}, {List: "0-3, 5,GPU-5f"}, {Bind: None}, {PerGPU: MaxPerGPU}} {
		if err := r.Check(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	for want, r := range map[string]Request{
		"--ranks-per-gpu -1":      {PerGPU: -1},
		"value 7":                 {Bind: 7},
		"cannot be combined with": {Bind: None, List: "0"},
		"\"\" is not a GPU":       {List: "0,,1"},
		"\"x\" is not a GPU":      {List: "x"},
		"\"3-1\" is not a GPU":    {List: "3-1"},
		"\"0-999\" is not a GPU":  {List: "0-999"},
		"MIG instances":           {List: "MIG-1"},
		"a list of":               {List: strings.Repeat("0,", maxList)},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A host without NVML has no GPUs; it is an error if the user requests them.
func TestWithoutNVML(t *testing.T) {
	defer func(f func() (*gpu.Machine, error)) { readMachine = f }(readMachine)
	readMachine = func() (*gpu.Machine, error) { return nil, fmt.Errorf("%w: no driver here", nvml.ErrUnavailable) }
	if p, err := Assign(Request{}, Share{Ranks: 8, Total: 8}, nil); err != nil || p.Ranks != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if n, err := Count(Request{}, nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, r := range []Request{{PerGPU: 1}, {List: "0"}, {Bind: Isolate}} {
		if _, err := Assign(r, Share{Ranks: 1, Total: 1}, nil); !errors.Is(err, nvml.ErrUnavailable) ||
			!strings.Contains(err.Error(), "no driver here") {
			t.Errorf("%+v: error %v", r, err)
		}
	}
	readMachine = func() (*gpu.Machine, error) { return machine(), nil }
	for want, r := range map[int]Request{4: {}, 8: {PerGPU: 2}, 0: {Bind: None}, 2: {List: "0,3"}} {
		if n, err := Count(r, []string{"PATH=/bin"}); n != want || err != nil {
			t.Errorf("%+v: %d, %v, want %d", r, n, err, want)
		}
	}
	if n, err := Count(Request{}, []string{"CUDA_VISIBLE_DEVICES=1"}); n != 1 || err != nil {
		t.Errorf("one visible: %d, %v", n, err)
	}
}

// Values of --gpus are never trusted.
func FuzzList(f *testing.F) {
	for _, s := range []string{"0", "0-3,GPU-5f1c", "00000000:17:00.0", "255-255", "-1", "9999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseList(s)
		if err != nil {
			return
		}
		if len(list) == 0 || len(list) > gpu.MaxGPUs {
			t.Fatalf("%d words", len(list))
		}
		if _, err := pick(list, machine()); err == nil && len(list) > 4 {
			t.Fatalf("%q picks %d of 4 GPUs", s, len(list))
		}
		_, _ = visibleDevices{value: s, set: true}.pick(gpu.InOrder(machine().GPUs))
	})
}
