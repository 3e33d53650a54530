package cores

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/internal/numbers"
)

// Machine has the cores of a host that its ranks may use. A core is what the kernel calls a CPU: one of the hardware
// threads, where there are several.
type Machine struct {
	Allowed []int            // in ascending order
	System  fs.FS            // the root folder, for the files of the kernel in sys
	known   map[[2]int]Place // by level and core: the results of partOf; nil: they are not kept
}

// Level is a kind of parts of a machine.
type Level int

// The levels that ranks can be spread over.
const (
	Whole  Level = iota // the machine itself
	NUMA                // NUMA nodes
	Socket              // processors
	L3                  // cores that share a cache of level 3
	levels

	physical // cores of the processor, of which each may be several hardware threads
)

// kinds has the names of levels in messages, and the file with the cores that share the part of a core, in its folder.
var kinds = map[Level]struct{ name, file string }{
	NUMA:     {"NUMA node", "node[0-9]*/cpulist"},
	Socket:   {"socket", cpu.Socket},
	L3:       {"L3 cache", cpu.L3},
	physical: {"physical core", cpu.Siblings},
}

// parts returns the parts of a level that have allowed cores, by the first of these.
func (m *Machine) parts(level Level) (list []Place, err error) {
	if level == Whole {
		return []Place{{Cores: m.Allowed}}, nil
	}
	for left := m.Allowed; len(left) > 0; {
		p := m.partOf(level, left[0])
		if p.Cores = common(left, p.Cores); !slices.Contains(p.Cores, left[0]) {
			return nil, fmt.Errorf("the kernel does not show the %s of core %d in /%s", kinds[level].name, left[0],
				cpu.Folder(left[0]))
		}
		list = append(list, p)
		left = slices.DeleteFunc(slices.Clone(left), func(core int) bool { return slices.Contains(p.Cores, core) })
	}
	return list, nil
}

// partOf returns the part of a level that has a core.
func (m *Machine) partOf(level Level, core int) (p Place) {
	key := [2]int{int(level), core}
	if p, ok := m.known[key]; ok {
		return p
	}
	file := kinds[level].file
	switch level {
	case NUMA:
		found, _ := fs.Glob(m.System, cpu.Folder(core)+file)
		for _, path := range found {
			file = strings.TrimPrefix(path, cpu.Folder(core))
		}
		p.Part = "NUMA " + strings.Replace(path.Dir(file), "node", "node ", 1)
	case Socket:
		p.Part = "socket " + cpu.Read(m.System, core, "topology/physical_package_id")
	default:
		p.Part = "one " + kinds[level].name
	}
	p.Cores = numbers.ParseList(cpu.Read(m.System, core, file), maxCores)
	if m.known != nil {
		m.known[key] = p
	}
	return p
}

// maxCores is more than the kernel numbers.
const maxCores = 1 << 16

// NUMANodes returns the number of NUMA nodes of the allowed cores, 0 where the kernel shows none.
func (m *Machine) NUMANodes() int {
	nodes, _ := m.parts(NUMA)
	return len(nodes)
}

// byNearness returns m with its cores in an order in which those that share more are nearer to each other: hardware
// threads of a core, an L3 cache, a NUMA node, a socket.
func (m *Machine) byNearness() *Machine {
	m = &Machine{m.Allowed, m.System, make(map[[2]int]Place)}
	keys := make(map[int][]int)
	for _, level := range []Level{Socket, NUMA, L3, physical} {
		parts, _ := m.parts(level) // none: all are equally near
		for i, p := range parts {
			for _, core := range p.Cores {
				keys[core] = append(keys[core], i)
			}
		}
	}
	sorted := slices.Clone(m.Allowed)
	slices.SortStableFunc(sorted, func(a, b int) int { return slices.Compare(keys[a], keys[b]) })
	return &Machine{sorted, m.System, m.known}
}

// apart returns n of some cores, of as many physical cores as there are.
func (m *Machine) apart(list []int, n int) (some []int) {
	cores, err := (&Machine{list, m.System, m.known}).parts(physical)
	if err != nil {
		return list[:n]
	}
	for thread := 0; len(some) < n; thread++ {
		for _, p := range cores {
			if thread < len(p.Cores) && len(some) < n {
				some = append(some, p.Cores[thread])
			}
		}
	}
	return some
}
