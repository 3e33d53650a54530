// Package foreign is not for users: it reads the topology of a host with GPUs from files of other tools: the XML that
// NCCL reads and writes (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), and the output of nvidia-smi topo -m. The result is the
// topo.Graph of one rank per GPU, with declared rates, as package topo/gpu makes it of the report of NVML. Package
// cmd/treerun/internal/planner imports it, for --graph.
//
// Rates are those of data sheets. NCCL plans with lower ones, after the overhead of its protocols: 20.6 GB/s in place
// of 25 for an NVLink of an H100. Everything that a file has and this package does not know is an error where a rate
// depends on it, and else a note. Network cards are known and not used: the graph is that of one host.
package foreign

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// Limits of a file, checked before any of it is used.
const (
	MaxBytes    = 16 << 20
	maxElements = 1 << 16
	maxDepth    = 64
	maxNotes    = 20 // more are counted
	maxLinks    = 64 // NVLinks of a GPU
)

// Is reports whether data, not valid JSON, has the form of a file of another tool.
func Is(data []byte) bool { return isXML(data) || isMatrix(data) }

// Parse returns the graph of the ranks on the GPUs of a host, rank by rank, that a file of another tool describes, and
// notes about the parts that are not known, or for which a usual value stands. model is the kind of the GPUs, for rates
// that are not in the file; nil: it is not known.
func Parse(data []byte, model *gpu.Model) (*topo.Graph, []string, error) {
	if len(data) > MaxBytes {
		return nil, nil, fmt.Errorf("%d bytes, want at most %d", len(data), MaxBytes)
	}
	h := &host{model: model}
	read, name := h.readMatrix, "nvidia-smi topo -m"
	if isXML(data) {
		read, name = h.readXML, "NCCL topology"
	}
	if err := read(data); err != nil {
		return nil, nil, err
	}
	var devices []string
	for _, g := range h.machine.GPUs {
		devices = append(devices, g.UUID)
	}
	g, err := gpu.Graph(&h.machine, devices, nil)
	if err != nil {
		return nil, nil, err
	}
	g.Name = name
	for _, l := range g.Links {
		if l.Kind == gpu.KindPCIe && h.machine.Levels[l.A][l.B] == gpu.LevelSystem {
			h.note("no rate between sockets is in the file: for PCIe traffic between them %.4g GB/s each way count",
				gpu.SocketRate)
		}
	}
	if h.unnamed > 0 {
		h.notes = append(h.notes, fmt.Sprintf("%d more notes of this kind", h.unnamed))
	}
	return g, h.notes, nil
}

// host is a host that is read.
type host struct {
	model   *gpu.Model // nil: not known
	machine gpu.Machine
	notes   []string
	unnamed int // notes beyond maxNotes
}

// note adds a note, once.
func (h *host) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	switch {
	case slices.Contains(h.notes, text):
	case len(h.notes) == maxNotes:
		h.unnamed++
	default:
		h.notes = append(h.notes, text)
	}
}

// levels makes the machine's table of levels, from the level of every pair of GPUs.
func (h *host) levels(level func(a, b int) gpu.Level) {
	n := len(h.machine.GPUs)
	for a := range n {
		row := make([]gpu.Level, n)
		for b := range n {
			if a != b {
				row[b] = level(a, b)
			}
		}
		h.machine.Levels = append(h.machine.Levels, row)
	}
}

// start returns data without a byte order mark and leading space.
func start(data []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
}

func isXML(data []byte) bool { return bytes.HasPrefix(start(data), []byte("<")) }
