//go:build linux

package host

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
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
func (sp *spawner) bind() error {
	all, err := allowed()
	r := &sp.host.job.Cores
	switch {
	case err != nil && r.Explicit():
		return fmt.Errorf("bind ranks to cores: %w (hint: --bind-to none)", err)
	case err != nil:
		sp.host.cfg.Trace("ranks are bound to no cores: %v", err)
	}
	m := &cores.Machine{Allowed: all, System: os.DirFS("/")}
	share := &cores.Share{Ranks: sp.ranks, Near: make([][]int, len(sp.ranks)), First: sp.share.First,
		Total: sp.share.Total, Usable: sp.host.cfg.Cores, NUMANodes: m.NUMANodes()}
	for i, g := range sp.gpus.GPUs {
		share.Near[i] = g.CPUs
	}
	if sp.cores, err = r.Plan(m, share); err != nil {
		return cmdline.Usagef("%w", err)
	}
	if len(sp.cores) > 0 && sp.cores[0].Cores != nil {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", ",")
		sp.file.Settings[CPUsSetting] = list
		if r.Bind == cores.Auto && !r.Explicit() && sp.share.Total > len(all) && share.NUMANodes < 2 && sp.gpus.GPUs == nil {
			sp.file.Settings[SharedCPUsSetting] = list
		}
	}
	unbound := "any of cores " + cores.List(all)
	for i, rank := range sp.ranks {
		where := unbound
		if sp.cores[i].Cores != nil {
			where = sp.cores[i].String()
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
	return nil
}

// withBinding calls start with this thread bound to the cores of a rank, which the rank inherits.
func (sp *spawner) withBinding(local int, start func() error) error {
	list := sp.cores[local].Cores
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
		return fmt.Errorf("bind to cores %s: sched_setaffinity: %w (hint: --bind-to none)", cores.List(list), err)
	}
	err := start()
	if restoreErr := unix.SchedSetaffinity(0, &before); restoreErr != nil && err == nil {
		sp.host.cfg.Trace("sched_setaffinity: %v", restoreErr)
	}
	return err
}
