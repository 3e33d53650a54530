package host

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/topo"
)

// allowed returns the numbers of the cores that this thread may use, in order.
func allowed() ([]int, error) {
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
	all, err := allowed()
	if err != nil {
		sp.host.cfg.Trace("ranks are bound to no cores: %v", err)
	}
	near := make([][]int, len(sp.ranks))
	for i, g := range sp.gpus.GPUs {
		near[i] = cores.Common(all, g.CPUs)
	}
	nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*") // none: one
	sp.cores = cores.Plan(cores.Bind(sp.host.job.Bind), all, near, sp.share.First, sp.share.Total, sp.host.cfg.Cores,
		len(nodes))
	if len(sp.cores) > 0 && sp.cores[0] != nil {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
		sp.file.Settings[CPUsSetting] = list
		if cores.Bind(sp.host.job.Bind) == cores.Auto && sp.share.Total > len(all) && len(nodes) < 2 && sp.gpus.GPUs == nil {
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
