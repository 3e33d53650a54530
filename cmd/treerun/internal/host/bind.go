package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/topo"
)

// Bind is the choice of cores for the ranks of a job.
type Bind int

// Values of --bind-to.
const (
	BindAuto Bind = iota // BindCore where that is quicker: see planBinding
	BindCore             // each rank on its own share of the cores, or on one that it shares
	BindNone             // the kernel chooses
)

// cores returns the numbers of the cores that this thread may use, in order.
func cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var all []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
			left--
		}
	}
	return all, nil
}

// shareOf returns the cores of a rank: adjacent ones, the same number for each rank, and one more for some ranks where
// the division leaves a remainder; or one core that other ranks have too, where there are more ranks than cores.
func shareOf(cores []int, rank, size int) []int {
	n := len(cores)
	if size > n {
		return cores[rank%n : rank%n+1]
	}
	return cores[rank*n/size : (rank+1)*n/size]
}

// sharers returns the number of ranks of the job that share the cores of a host, and the number of those before the
// host's own ranks: hosts may be containers of one machine.
func sharers(j *wire.Run, index int) (before, ranks int) {
	for _, h := range j.File.Hosts {
		shared := h == index
		if m := j.Machines; index < len(m) {
			shared = m[h] == m[index]
		}
		if shared {
			ranks++
			if h < index {
				before++
			}
		}
	}
	return before, ranks
}

// bind chooses the cores that the ranks of this host are bound to, and reports them where the user wants it.
func (sp *spawner) bind() {
	all, err := cores()
	if err != nil {
		sp.host.cfg.Trace("ranks are bound to no cores: %v", err)
	}
	near := make([][]int, len(sp.ranks))
	for i, g := range sp.gpus.GPUs {
		near[i] = common(all, g.CPUs)
	}
	nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*") // none: one
	sp.cores = planBinding(Bind(sp.host.job.Bind), all, near, sp.share.First, sp.share.Total, sp.host.cfg.Cores,
		len(nodes))
	if len(sp.cores) > 0 && sp.cores[0] != nil {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
		sp.file.Settings[CPUsSetting] = list
		if Bind(sp.host.job.Bind) == BindAuto && sp.share.Total > len(all) && len(nodes) < 2 && sp.gpus.GPUs == nil {
			sp.file.Settings[SharedCPUsSetting] = list
		}
	}
	unbound := "any of cores " + topo.RankList(all)
	for i, rank := range sp.ranks {
		where := unbound
		if sp.cores[i] != nil {
			where = "cores " + topo.RankList(sp.cores[i])
		}
		if sp.gpus.GPUs != nil {
			where = fmt.Sprintf("%s, %s", &sp.gpus.GPUs[i], where)
		}
		if text := fmt.Sprintf("rank %d: %s", rank, where); sp.host.job.ReportBindings {
			sp.host.cfg.Report(&wire.Note{Text: text})
		} else {
			sp.host.cfg.Trace("%s", text)
		}
	}
}

// common returns the values of a that b has, too.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(v int) bool { return !slices.Contains(b, v) })
}

// planBinding plans the binding of this host's ranks: the cores of each, nil for any. near holds, for ranks with a GPU,
// the cores among all that are near it. The ranks are the first of the among ranks that share the cores; the host has
// the given number of NUMA nodes, and lets the job use usable cores.
//
// A rank with a GPU has all cores of its NUMA node, since it has threads that feed it, unless the user wants each rank
// to have a share of its own. Other ranks have a share of all cores in two cases. The first is that every core has
// several ranks, and the same number of them: without binding, the kernel sometimes puts three of four ranks on one of
// two cores and leaves them there for longer than a small job takes: AllReduce of 8 bytes then takes 5.5 us in place of
// 3.2, with eight ranks 18 in place of 8. The second is that there are several nodes, whose memory is not equally near.
// Otherwise the kernel does as well on an idle machine, and better next to other programs: two ranks on two cores next
// to a busy program take 1.8 (4 MiB) to 25 times (8 KiB) as long in the mean when they are bound.
func planBinding(bind Bind, all []int, near [][]int, first, among, usable, nodes int) [][]int {
	plan := make([][]int, len(near))
	if bind == BindNone || len(all) == 0 {
		return plan
	}
	divide := dividesCores(bind, all, among, usable, nodes)
	groups := make(map[string][]int) // by the cores near them
	for i, list := range near {
		switch {
		case len(list) > 0 && len(list) < len(all):
			groups[fmt.Sprint(list)] = append(groups[fmt.Sprint(list)], i)
		case divide:
			plan[i] = shareOf(all, first+i, among)
		}
	}
	for _, ranks := range groups {
		for k, i := range ranks {
			plan[i] = near[i]
			if bind == BindCore {
				plan[i] = shareOf(near[i], k, len(ranks))
			}
		}
	}
	return plan
}

// dividesCores reports whether the cores are divided among the given number of ranks.
func dividesCores(bind Bind, all []int, ranks, usable, nodes int) bool {
	switch {
	case bind == BindCore:
		return true
	case usable < len(all):
		return false // a quota of CPU time on all cores, as in a container, is not a share of the cores
	case ranks <= len(all):
		return nodes > 1
	}
	return ranks%len(all) == 0 // else the kernel moves ranks about, so that each is on a loaded core for a while only
}

// withBinding calls start with this thread bound to the cores of a rank, which the rank inherits.
func (sp *spawner) withBinding(local int, start func() error) error {
	list := sp.cores[local]
	if list == nil {
		return start()
	}
	var mine, before unix.CPUSet
	for _, cpu := range list {
		mine.Set(cpu)
	}
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &mine); err != nil {
		return fmt.Errorf("bind to cores %s: sched_setaffinity: %w (hint: --bind-to none)", topo.RankList(list), err)
	}
	err := start()
	if restoreErr := unix.SchedSetaffinity(0, &before); restoreErr != nil && err == nil {
		sp.host.cfg.Trace("sched_setaffinity: %v", restoreErr)
	}
	return err
}
