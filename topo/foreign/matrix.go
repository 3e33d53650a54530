package foreign

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/topo/gpu"
)

// escapes are the sequences that nvidia-smi writes to underline the names of columns.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// isGPU matches the name of a row or column of a GPU, by its number.
var isGPU = regexp.MustCompile(`^GPU([0-9]{1,4})$`)

// isMatrix reports whether a line of data, near its start, begins with the name of a GPU.
func isMatrix(data []byte) bool {
	data = data[:min(len(data), 1<<16)]
	for line := range bytes.Lines(escapes.ReplaceAll(data, nil)) {
		if f := bytes.Fields(line); len(f) > 1 && isGPU.Match(f[0]) {
			return true
		}
	}
	return false
}

// matrixLevels has the words for ways over PCIe: those of today, and SOC and PSB of versions before 2018.
var matrixLevels = map[string]gpu.Level{
	"PSB": gpu.LevelBoard, "PIX": gpu.LevelSwitch, "PXB": gpu.LevelSwitches, "PHB": gpu.LevelRoot,
	"NODE": gpu.LevelNode, "SYS": gpu.LevelSystem, "SOC": gpu.LevelSystem,
}

// matrix is the part of an nvidia-smi matrix that is about GPUs.
type matrix struct {
	names []string   // of the GPUs
	cells [][]string // of every pair
	cpus  []string   // cores near each GPU; "": not known
}

// readMatrix reads the output of nvidia-smi topo -m.
func (h *host) readMatrix(data []byte) error {
	if h.model == nil {
		return fmt.Errorf("the matrix of nvidia-smi has no rates: name the kind of its GPUs with --gpu-model, one of %s",
			strings.Join(gpu.Models(), ", "))
	}
	m, err := h.parseMatrix(string(escapes.ReplaceAll(data, nil)))
	if err != nil {
		return err
	}
	counts, err := m.nvlinks(h.model)
	if err != nil {
		return err
	}
	switched, err := m.switched(counts, h.model)
	if err != nil {
		return err
	}
	for a, name := range m.names {
		number, _ := strconv.Atoi(isGPU.FindStringSubmatch(name)[1]) // four digits at most
		g := gpu.GPU{Index: number, UUID: name, Name: h.model.Name, PCI: name, NUMA: -1,
			PCIeGeneration: h.model.Generation, PCIeWidth: 16}
		for b, n := range counts[a] {
			link, _ := gpu.LinkOf(h.model.SM) // nvlinks refused other models
			link.Remote, link.Switch = m.names[b], switched
			if !switched || b == (a+1)%len(m.names) { // to switches all pairs have the same links
				g.NVLinks = append(g.NVLinks, slices.Repeat([]gpu.NVLink{link}, n)...)
			}
		}
		h.machine.GPUs = append(h.machine.GPUs, g)
	}
	h.levels(func(a, b int) gpu.Level {
		if l, pcie := matrixLevels[m.cells[a][b]]; pcie {
			return l
		}
		return m.near(a, b)
	})
	return nil
}

// near returns the level of two GPUs with NVLinks, of which the matrix has only the cores near them.
func (m *matrix) near(a, b int) gpu.Level {
	switch {
	case m.cpus[a] == "" || m.cpus[b] == "":
		return gpu.LevelUnknown
	case m.cpus[a] == m.cpus[b]:
		return gpu.LevelNode
	}
	return gpu.LevelSystem
}

// parseMatrix reads the rows and columns of GPUs. Others are those of network cards.
func (h *host) parseMatrix(text string) (*matrix, error) {
	m := &matrix{}
	var columns []string // names of devices, in order
	affinity := false    // a column with the cores near a GPU follows
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case columns == nil && len(f) > 0 && isGPU.MatchString(f[0]):
			if end := slices.Index(f, "CPU"); end >= 0 {
				columns, affinity = f[:end], true
			} else {
				columns = f
			}
		case columns != nil && len(f) > 0 && isGPU.MatchString(f[0]):
			if err := m.row(f, columns, affinity); err != nil {
				return nil, err
			}
		}
	}
	return m, m.check(columns)
}

// row adds the row of a GPU.
func (m *matrix) row(f, columns []string, affinity bool) error {
	if len(f)-1 < len(columns) {
		return fmt.Errorf("the row of %s has %d cells for %d columns", f[0], len(f)-1, len(columns))
	}
	if len(m.names) == gpu.MaxGPUs {
		return fmt.Errorf("more than %d rows of GPUs", gpu.MaxGPUs)
	}
	var cells []string
	for i, c := range columns {
		if isGPU.MatchString(c) {
			cells = append(cells, f[1+i])
		}
	}
	cpus := ""
	if rest := f[1+len(columns):]; affinity && len(rest) > 0 && rest[0] != "N/A" {
		cpus = rest[0]
	}
	m.names, m.cells, m.cpus = append(m.names, f[0]), append(m.cells, cells), append(m.cpus, cpus)
	return nil
}

// check reports rows and columns that differ, and cells that differ from those of the way back.
func (m *matrix) check(columns []string) error {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !isGPU.MatchString(c) })
	if len(m.names) == 0 {
		return fmt.Errorf("no row of a GPU below the names of the columns")
	}
	if !slices.Equal(columns, m.names) {
		return fmt.Errorf("the rows of GPUs are %.80q, and the columns %.80q: want the same, in the same order", m.names,
			columns)
	}
	for a, row := range m.cells {
		for b, cell := range row {
			_, pcie := matrixLevels[cell]
			switch {
			case (a == b) != (cell == "X"):
				return fmt.Errorf("%s to %s is %.20q: want X for a GPU and itself, and only there", m.names[a], m.names[b],
					cell)
			case cell != m.cells[b][a]:
				return fmt.Errorf("%s to %s is %.20q, and the way back %.20q", m.names[a], m.names[b], cell, m.cells[b][a])
			case a != b && !pcie && !isNVLinks.MatchString(cell):
				return fmt.Errorf("%s to %s is %.20q, which is not known: want NV and a number, PIX, PXB, PHB, NODE or SYS",
					m.names[a], m.names[b], cell)
			}
		}
	}
	return nil
}

// isNVLinks matches the cell of two GPUs with NVLinks.
var isNVLinks = regexp.MustCompile(`^NV([1-9][0-9]?)$`)

// nvlinks returns the number of NVLinks of every pair.
func (m *matrix) nvlinks(model *gpu.Model) (counts [][]int, err error) {
	for a, row := range m.cells {
		list := make([]int, len(row))
		for b, cell := range row {
			if f := isNVLinks.FindStringSubmatch(cell); f != nil {
				list[b], _ = strconv.Atoi(f[1]) // two digits
			}
			if list[b] > model.NVLinks {
				return nil, fmt.Errorf("%s and %s have %d NVLinks, and --gpu-model %s has %d at most: is it another kind?",
					m.names[a], m.names[b], list[b], model.Name, model.NVLinks)
			}
		}
		counts = append(counts, list)
	}
	return counts, nil
}

// switched reports whether the NVLinks of all pairs go over NVSwitches: there every pair has all links of the two GPUs,
// which together are more than a GPU has.
func (m *matrix) switched(counts [][]int, model *gpu.Model) (bool, error) {
	for a, row := range counts {
		sum := 0
		for _, n := range row {
			sum += n
		}
		if sum <= model.NVLinks {
			continue
		}
		for b, other := range counts {
			for c, n := range other {
				if b != c && n != row[(a+1)%len(row)] {
					return false, fmt.Errorf("%s has %d NVLinks in all, and --gpu-model %s has %d: they could go over NVSwitches, "+
						"but %s and %s have %d: is it another kind?", m.names[a], sum, model.Name, model.NVLinks, m.names[b],
						m.names[c], n)
				}
			}
		}
		return true, nil
	}
	return false, nil
}
