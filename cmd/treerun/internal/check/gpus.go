//go:build linux

package check

import (
	"errors"
	"fmt"
	"strings"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/gpu"
)

// gpus checks the GPUs and returns the number of usable ones.
func (h *System) gpus(p *printer) int {
	version, devices, driverErr := h.Devices()
	m, nvmlErr := h.Machine()
	kernel, kernelErr := h.Kernel()
	if driverErr != nil && nvmlErr != nil && !errors.Is(nvmlErr, nvml.ErrBroken) && kernel == 0 && kernelErr == nil {
		p.add(Line{None, "gpu", "no NVIDIA GPU that this process could use: " + driverErr.Error(), ""})
		return 0
	}
	driver := Line{Good, "driver", fmt.Sprintf("CUDA %s, %s", version, numbers.Count(len(devices), "GPU")),
		"nvidia-smi must work; containers need --gpus all and the compute capability"}
	if driverErr != nil {
		driver.State, driver.Text = Wrong, driverErr.Error()
	}
	if errors.Is(driverErr, cuda.ErrUnavailable) && strings.Contains(driver.Text, "without cgo") {
		driver.Remedy = "build treerun with cgo"
	}
	p.add(driver)
	if nvmlErr != nil {
		p.add(Line{Wrong, "nvml", nvmlErr.Error(),
			"libnvidia-ml.so.1 comes with the driver; containers need the utility capability " +
				"(NVIDIA_DRIVER_CAPABILITIES=compute,utility)"})
		return len(devices)
	}
	text := numbers.Count(len(m.GPUs), "GPU")
	if m.Driver != "" {
		text = "driver " + m.Driver + ", " + text
	}
	p.add(Line{Good, "nvml", text, "one driver, and as many GPUs, on all hosts"}, text)
	usable := 0
	for i := range m.GPUs {
		g := &m.GPUs[i]
		l := gpuLine(g, devices, driverErr == nil)
		if l.State == Good {
			usable++
		}
		p.add(l, fmt.Sprintf("%s, %s", g.Name, size(uint64(max(g.Memory, 0))))+g.Connections())
	}
	if driverErr != nil || usable == 0 {
		return usable
	}
	if h.MPS {
		p.add(Line{Note, "mps", "MPS runs: a rank that is killed may end all ranks that share its GPU",
			"a GPU for every rank, or --ranks-per-gpu without MPS"})
	}
	r, err := h.Peers(m)
	if err != nil {
		p.add(Line{Wrong, "peers", err.Error(), ""})
	} else {
		addPeers(p, r)
	}
	return usable
}

// gpuLine returns the line about one GPU.
func gpuLine(g *gpu.GPU, devices Devices, known bool) Line {
	l := Line{Good, fmt.Sprintf("gpu %d", g.Index),
		fmt.Sprintf("%s, %s, %s, %s", g.Name, g.UUID, g.PCI, size(uint64(max(g.Memory, 0)))) + g.Connections(), ""}
	memOps, shown := devices[g.UUID]
	switch {
	case g.MIG:
		l.State, l.Text, l.Remedy = Note, l.Text+", cut into MIG instances, which treerun does not use",
			fmt.Sprintf("nvidia-smi -i %d -mig 0", g.Index)
	case !known:
	case !shown:
		l.State, l.Text, l.Remedy = Wrong, l.Text+", which CUDA does not show",
			"is it in CUDA_VISIBLE_DEVICES? dmesg reports lost GPUs (Xid)"
	case memOps != nil:
		l.State, l.Text = Wrong, l.Text+", which collectives cannot use: "+memOps.Error()
		if errors.Is(memOps, cuda.ErrNotSupported) {
			l.Remedy = "a driver from 515 on (CUDA 11.7), on Linux"
		}
	}
	return l
}

// addPeers writes the findings of the ranks: a line for the links, whose rates treerun topo shows,
// one for each link that is advertised but faulty, and a line for memory that processes share.
func addPeers(p *printer, r *peers.HostResult) {
	good, refused, wrong, unopened := 0, 0, 0, 0
	why := ""
	for _, f := range r.Found {
		switch {
		case f.Fault == "":
			good++
		case f.Refused:
			refused++
		case f.Unopened:
			unopened++
			why = f.Fault
		default:
			wrong++
		}
	}
	pairs := len(r.Found)
	text := fmt.Sprintf("%s: %d read each other's memory", numbers.Count(pairs, "pair"), good)
	if refused > 0 {
		text += fmt.Sprintf(", %d cannot according to the driver and go through host memory", refused)
	}
	l := Line{Good, "peers", text,
		"turn ACS off on PCIe switches and the IOMMU off or to passthrough (iommu=pt); jobs leave these links out"}
	if wrong > 0 {
		l.State = Wrong
		l.Text += fmt.Sprintf(", %d should, and transfer wrong data or hang", wrong)
	}
	p.add(l)
	for _, line := range r.DroppedLines() {
		p.add(Line{Note, "link", line, ""})
	}
	ipc := Line{Good, "ipc", numbers.Count(len(r.Ranks), "process") + " opened each other's device memory",
		"containers share one IPC and one PID namespace (docker --ipc=host --pid=host)"}
	if unopened > 0 {
		ipc.State, ipc.Text = Wrong, fmt.Sprintf("in %s one process cannot open the other's device memory: %s",
			numbers.Count(unopened, "pair"), why)
	}
	if pairs > 0 {
		p.add(ipc)
	}
}
