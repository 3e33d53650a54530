package gpu

import (
	"slices"
	"strings"
)

// Model is a kind of GPU, with the rates that its data sheet declares.
type Model struct {
	Name       string // "a100"
	SM         int    // compute capability, 80 for 8.0
	Generation int    // of its PCIe interface, which has 16 lanes
	NVLinks    int    // their number; 0: it has none
}

// models holds the kinds of GPUs that are known. Sources: NVIDIA's data sheets and white papers; A800 and H800 have 400
// GB/s both ways. Where versions of a kind differ it has the most NVLinks that any has, as of SXM.
var models = []Model{
	{"p100", 60, 3, 4}, {"v100", 70, 3, 6}, {"t4", 75, 3, 0},
	{"a100", 80, 4, 12}, {"a800", 80, 4, 8}, {"a30", 80, 4, 4}, {"a10", 86, 4, 0}, {"a40", 86, 4, 4},
	{"a6000", 86, 4, 4}, {"rtx3090", 86, 4, 4},
	{"l4", 89, 4, 0}, {"l40", 89, 4, 0}, {"l40s", 89, 4, 0}, {"rtx4090", 89, 4, 0},
	{"h100", 90, 5, 18}, {"h200", 90, 5, 18}, {"h20", 90, 5, 18}, {"h800", 90, 5, 8},
	{"b200", 100, 5, 18},
}

// Models returns the names of the kinds of GPUs that are known.
func Models() (names []string) {
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// FindModel returns the kind of GPU with a name, in letters of any case, and nil where it is not known.
func FindModel(name string) *Model {
	i := slices.IndexFunc(models, func(m Model) bool { return strings.EqualFold(m.Name, name) })
	if i < 0 {
		return nil
	}
	return &models[i]
}

// smLinks holds the NVLinks of GPUs by compute capability. Those of 8.6 are of generation 3, with 14.0625 GB/s each
// way: NVIDIA's data sheets of A40 and RTX A6000 have 112.5 GB/s for four links, both ways.
var smLinks = map[int]NVLink{
	60: {Version: 1}, 70: {Version: 2}, 72: {Version: 2}, 75: {Version: 2}, 80: {Version: 3},
	86: {Version: 3, Rate: 112.5 / 4 / 2}, 90: {Version: 4}, 100: {Version: 5}, 103: {Version: 5},
}

// LinkOf returns an NVLink, without its end, of a GPU of a compute capability. It reports whether such GPUs have any
// that are known.
func LinkOf(sm int) (NVLink, bool) {
	l, known := smLinks[sm]
	return l, known
}

// transferRates holds the transfers per second of a PCIe lane, in 1e9, by generation.
var transferRates = [...]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}

// PCIeGeneration returns the generation of PCIe whose lanes transfer that often per second, in 1e9; 0: there is none.
func PCIeGeneration(transfers float64) int { return max(slices.Index(transferRates[:], transfers), 0) }
