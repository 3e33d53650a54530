//go:build linux

package host

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
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

// binding is the choice of cores for the ranks of a host.
type binding struct {
	allowed []int // numbers of the cores that this thread may use
	unknown error // why they are not known
	share   *cores.Share
	gpus    *gpus.Plan
	places  []cores.Place // by local rank
}

// newBinding chooses the cores of ranks that have the number of cores usable by the quota of CPU time.
func newBinding(r *cores.Request, ranks []int, of gpus.Share, usable int, g *gpus.Plan) (*binding, error) {
	all, err := allowed()
	if err != nil && r.Explicit() {
		return nil, fmt.Errorf("bind ranks to cores: %w (hint: --bind-to none)", err)
	}
	m := &cores.Machine{Allowed: all, System: os.DirFS("/")}
	b := &binding{allowed: all, unknown: err, gpus: g}
	b.share = &cores.Share{Ranks: ranks, Near: make([][]int, len(ranks)), First: of.First, Total: of.Total,
		Usable: usable, NUMANodes: m.NUMANodes()}
	for i, gpu := range g.GPUs {
		b.share.Near[i] = gpu.CPUs
	}
	if b.places, err = r.Plan(m, b.share); err != nil {
		return nil, cmdline.Usagef("%w", err)
	}
	return b, nil
}

// lines describes where each rank runs.
func (b *binding) lines() []string {
	var lines []string
	for i, rank := range b.share.Ranks {
		where := "any of " + cores.List(b.allowed)
		if b.places[i].Cores != nil {
			where = b.places[i].String()
		}
		if b.gpus.GPUs != nil {
			where = fmt.Sprintf("%s, %s", &b.gpus.GPUs[i], where)
		}
		lines = append(lines, fmt.Sprintf("rank %d: %s", rank, where))
	}
	return lines
}

// Bindings describes where ranks of this host would run with some GPUs, where no others share its cores.
func Bindings(r *cores.Request, ranks []int, g *gpus.Plan) ([]string, error) {
	b, err := newBinding(r, ranks, gpus.Share{Total: len(ranks)}, job.UsableCores(), g)
	if err != nil {
		return nil, err
	}
	return b.lines(), nil
}

// bind chooses the cores that the ranks of this host are bound to, and reports them where the user wants it.
func (sp *spawner) bind() error {
	r := &sp.host.job.Cores
	b, err := newBinding(r, sp.ranks, sp.share, sp.host.cfg.Cores, sp.gpus)
	if err != nil {
		return err
	}
	if b.unknown != nil {
		sp.host.cfg.Trace("ranks are bound to no cores: %v", b.unknown)
	}
	sp.cores = b.places
	if len(sp.cores) > 0 && sp.cores[0].Cores != nil {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(b.allowed), "[]"), " ", ",")
		sp.file.Settings[CPUsSetting] = list
		if r.Bind == cores.Auto && !r.Explicit() && sp.share.Total > len(b.allowed) && b.share.NUMANodes < 2 &&
			sp.gpus.GPUs == nil {
			sp.file.Settings[sharedCPUsSetting] = list
		}
	}
	for _, text := range b.lines() {
		if sp.host.job.ReportBindings {
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
		return fmt.Errorf("bind to %s: sched_setaffinity: %w (hint: --bind-to none)", cores.List(list), err)
	}
	err := start()
	if restoreErr := unix.SchedSetaffinity(0, &before); restoreErr != nil && err == nil {
		sp.host.cfg.Trace("sched_setaffinity: %v", restoreErr)
	}
	return err
}
