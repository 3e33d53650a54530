package planner

import (
	"bytes"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// onGPUs returns the measurements of four ranks on three GPUs, of which two have no NVLink.
func onGPUs(int, *Places) (*Measured, int, error) {
	m := &gpu.Machine{GPUs: []gpu.GPU{
		{Index: 0, UUID: "GPU-a", Name: "V100", PCI: "0000:06:00.0", NUMA: 0, PCIeGeneration: 3, PCIeWidth: 16,
			MemoryRate: 900, NVLinks: []gpu.NVLink{{Version: 2, Remote: "0000:07:00.0"}}},
		{Index: 1, UUID: "GPU-b", Name: "V100", PCI: "0000:07:00.0", NUMA: -1,
			NVLinks: []gpu.NVLink{{Version: 2, Remote: "0000:06:00.0"}}},
		{Index: 2, UUID: "GPU-c", Name: "V100", PCI: "0000:08:00.0", NUMA: 1},
	}}
	devices := []string{"GPU-a", "GPU-b", "GPU-c", "GPU-c"}
	found := []gpu.Finding{
		{A: 0, B: 1, GBytesPerSecond: 22.5, LatencyUs: 2}, {A: 0, B: 2, GBytesPerSecond: 11, Push: 12, LatencyUs: 9},
		{A: 1, B: 2, Fault: "wrong data"},
	}
	g, err := gpu.Graph(m, devices, found)
	ranks := []int{0, 1, 2, 3}
	host := peers.HostResult{Ranks: ranks, Devices: devices, Machine: m, Graph: g, Found: found,
		Dropped: gpu.Dropped(found)}
	return &Measured{Graph: g, Hosts: []peers.HostResult{host}}, 0, err
}

// TestTopoOfGPUs: declared rates are shown next to measured ones, in text and JSON.
func TestTopoOfGPUs(t *testing.T) {
	var text, data bytes.Buffer
	if code, err := Topo(&text, nil, onGPUs); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	for _, want := range []string{
		"rank 0: GPU 0 (V100, GPU-a, 0000:06:00.0), NUMA node 0, PCIe 3.0 x16, 1 NVLinks 2.0\n",
		"rank 3: GPU 2 (V100, GPU-c, 0000:08:00.0), NUMA node 1\n",
		"the link of ranks 1 and 2 (GPU-b, GPU-c) is not used: wrong data",
		"the link of ranks 0 and 2 (pcie): pull 11.0 GB/s, push 12.0 GB/s\n", "declared, where it was measured\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if code, err := Topo(&data, []string{"--format", "json"}, onGPUs); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	g, err := topo.ParseGraph(data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range g.Links {
		if l.Source == "" || (l.Source == topo.Measured) != (l.Declared > 0) {
			t.Errorf("%+v", l)
		}
	}
}
