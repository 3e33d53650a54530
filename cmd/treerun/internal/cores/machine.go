package cores

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
)

// Machine has the cores of a host that its ranks may use. A core is what the kernel calls a CPU: one of the hardware
// threads, where there are several.
type Machine struct {
	Allowed []int // in ascending order
	System  fs.FS // the root folder, for the files of the kernel in sys
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

// files has, by level, the file with the list of those cores that share the part of a core, in the folder of that core.
var files = map[Level]string{NUMA: "node[0-9]*/cpulist", Socket: "topology/core_siblings_list",
	L3: "cache/index[0-9]*/shared_cpu_list", physical: "topology/thread_siblings_list"}

// kinds are the names of levels in messages.
var kinds = map[Level]string{NUMA: "NUMA node", Socket: "socket", L3: "L3 cache", physical: "physical core"}

// part is a part of a machine.
type part struct {
	name  string
	cores []int // of Allowed
}

// String names the cores of the part for messages.
func (p part) String() string {
	return strings.TrimSuffix("cores "+List(p.cores)+" of "+p.name, " of ")
}

// parts returns the parts of a level that have allowed cores, by the first of these.
func (m *Machine) parts(level Level) (list []part, err error) {
	if level == Whole {
		return []part{{"", m.Allowed}}, nil
	}
	for left := m.Allowed; len(left) > 0; {
		p, err := m.partOf(level, left[0])
		if p.cores = common(left, p.cores); err != nil || !slices.Contains(p.cores, left[0]) {
			return nil, fmt.Errorf("the kernel does not show the %s of core %d in /%s", kinds[level], left[0], folder(left[0]))
		}
		list = append(list, p)
		left = slices.DeleteFunc(slices.Clone(left), func(core int) bool { return slices.Contains(p.cores, core) })
	}
	return list, nil
}

// partOf returns the part of a level that has a core.
func (m *Machine) partOf(level Level, core int) (p part, err error) {
	found, err := fs.Glob(m.System, folder(core)+files[level])
	for _, file := range found {
		if level == L3 && m.read(path.Join(path.Dir(file), "level")) != "3" {
			continue
		}
		p.cores, err = parseList(m.read(file))
		switch p.name = "one " + kinds[level]; level {
		case NUMA:
			p.name = "NUMA node " + strings.TrimPrefix(path.Base(path.Dir(file)), "node")
		case Socket:
			p.name = "socket " + m.read(folder(core)+"topology/physical_package_id")
		}
	}
	return p, err
}

// folder is the kernel's folder of a core.
func folder(core int) string { return fmt.Sprintf("sys/devices/system/cpu/cpu%d/", core) }

// read returns the line that is a file, "" where there is none.
func (m *Machine) read(file string) string {
	text, _ := fs.ReadFile(m.System, file)
	return strings.TrimSpace(string(text))
}

// maxCores is more than the kernel numbers.
const maxCores = 1 << 16

// parseList reads numbers as in 0,4-7.
func parseList(text string) (list []int, err error) {
	names, err := numbers.ExpandNames("["+text+"]", maxCores)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil || n >= maxCores {
			return nil, fmt.Errorf("%.20q, want a number below %d", name, maxCores)
		}
		list = append(list, n)
	}
	return list, nil
}

// NUMANodes returns the number of NUMA nodes of the allowed cores, 0 where the kernel shows none.
func (m *Machine) NUMANodes() int {
	nodes, _ := m.parts(NUMA)
	return len(nodes)
}

// byNearness returns m with its cores in an order in which those that share more are nearer to each other: hardware
// threads of a core, an L3 cache, a NUMA node, a socket.
func (m *Machine) byNearness() *Machine {
	keys := make(map[int][]int)
	for _, level := range []Level{Socket, NUMA, L3, physical} {
		parts, _ := m.parts(level) // none: all are equally near
		for i, p := range parts {
			for _, core := range p.cores {
				keys[core] = append(keys[core], i)
			}
		}
	}
	sorted := slices.Clone(m.Allowed)
	slices.SortStableFunc(sorted, func(a, b int) int { return slices.Compare(keys[a], keys[b]) })
	return &Machine{Allowed: sorted, System: m.System}
}

// apart returns n of some cores, of as many physical cores as there are.
func (m *Machine) apart(list []int, n int) (some []int) {
	cores, err := (&Machine{Allowed: list, System: m.System}).parts(physical)
	if err != nil {
		return list[:n]
	}
	for thread := 0; len(some) < n; thread++ {
		for _, p := range cores {
			if thread < len(p.cores) && len(some) < n {
				some = append(some, p.cores[thread])
			}
		}
	}
	return some
}
