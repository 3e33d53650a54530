//go:build linux

package host

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/cpu"
)

// sharers returns the number of ranks, of those for which in is true, that share the cores of a host, and the number of
// those before the host's own: hosts may be containers of one machine.
func sharers(j *wire.Run, index int, in func(rank int) bool) (before, ranks int) {
	for rank, h := range j.File.Hosts {
		shared := h == index
		if m := j.Machines; index < len(m) {
			shared = m[h] == m[index]
		}
		if shared && in(rank) {
			ranks++
			if h < index {
				before++
			}
		}
	}
	return before, ranks
}

// Places is what the ranks of a host get of its cores and GPUs.
type Places struct {
	Notices []string // why ranks have no GPUs although the host has some

	ranks   []int
	gpus    []gpus.Rank   // by local rank
	cores   []cores.Place // likewise
	allowed []int         // numbers of the cores that this thread may use
	unknown error         // why they are not known
	shared  bool          // ranks that share a core may leave it for others
}

// PlaceRanks chooses the cores and GPUs of ranks of j, which are those of a host. usable is the number of cores by the
// quota of CPU time, and env the environment of the ranks.
func PlaceRanks(j *wire.Run, index int, ranks []int, usable int, env []string) (*Places, error) {
	p := &Places{ranks: ranks}
	if err := p.assignGPUs(j, index, env); err != nil {
		return nil, err
	}
	if err := p.bind(j, index, usable); err != nil {
		return nil, err
	}
	return p, nil
}

// group is those of a host's ranks whose programs have the same settings.
type group[K comparable] struct {
	settings K
	locals   []int // local ranks
	first    int   // ranks of the group on hosts before this one that are the same machine
	total    int   // ranks of the group on all hosts that are this machine
}

// groupsOf groups the ranks of a host by a part of their settings.
func groupsOf[K comparable](j *wire.Run, index int, ranks []int, of func(wire.Share) K) (all []*group[K]) {
	for local, rank := range ranks {
		k := of(j.ShareOf(rank))
		i := slices.IndexFunc(all, func(g *group[K]) bool { return g.settings == k })
		if i < 0 {
			g := &group[K]{settings: k}
			g.first, g.total = sharers(j, index, func(rank int) bool { return of(j.ShareOf(rank)) == k })
			i, all = len(all), append(all, g)
		}
		all[i].locals = append(all[i].locals, local)
	}
	return all
}

// assignGPUs assigns the GPUs of the host to the ranks. Programs with flags of their own must not get the same.
func (p *Places) assignGPUs(j *wire.Run, index int, env []string) error {
	p.gpus = make([]gpus.Rank, len(p.ranks))
	owner := make(map[string]int) // by UUID: a group
	for i, g := range groupsOf(j, index, p.ranks, func(s wire.Share) gpus.Request { return s.GPUs }) {
		plan, err := gpus.Assign(g.settings, gpus.Share{Ranks: len(g.locals), First: g.first, Total: g.total}, env)
		if err != nil {
			return err
		}
		if plan.Notice != "" {
			p.Notices = append(p.Notices, plan.Notice)
		}
		for k, own := range plan.Ranks {
			local := g.locals[k]
			p.gpus[local] = own
			if other, taken := owner[own.GPU.UUID]; taken && other != i {
				return cmdline.Usagef("rank %d gets GPU %d (%s), and so does a rank of another program (hint: --gpus names "+
					"those of each program, --gpu-bind none gives it none)", p.ranks[local], own.GPU.Index, own.GPU.UUID)
			}
			owner[own.GPU.UUID] = i
		}
	}
	return nil
}

// bind chooses the cores that the ranks are bound to.
func (p *Places) bind(j *wire.Run, index, usable int) error {
	p.allowed, p.unknown = cpu.Allowed()
	m := &cores.Machine{Allowed: p.allowed, System: os.DirFS("/")}
	nodes := m.NUMANodes()
	var groups []*cores.Group
	all := groupsOf(j, index, p.ranks, func(s wire.Share) wire.Share {
		s.GPUs = gpus.Request{}
		return s
	})
	for _, g := range all {
		c := &cores.Group{Request: g.settings.CoresOf(j.Cores)}
		c.Share = cores.Share{First: g.first, Total: g.total, Usable: usable, NUMANodes: nodes}
		for _, local := range g.locals {
			c.Ranks, c.Near = append(c.Ranks, p.ranks[local]), append(c.Near, nil)
			if gpu := p.gpus[local].GPU; gpu != nil {
				c.Near[len(c.Near)-1] = gpu.CPUs
			}
		}
		if p.unknown != nil && c.Explicit() {
			return fmt.Errorf("bind ranks to cores: %w (hint: --bind-to none)", p.unknown)
		}
		groups = append(groups, c)
	}
	if err := cores.PlanAll(m, groups); err != nil {
		return cmdline.Usagef("%w", err)
	}
	p.cores = make([]cores.Place, len(p.ranks))
	for i, g := range all {
		for k, local := range g.locals {
			p.cores[local] = groups[i].Places[k]
		}
	}
	p.shared = len(all) == 1 && groups[0].Bind == cores.Auto && !groups[0].Explicit() && nodes < 2 &&
		all[0].total > len(p.allowed) && !slices.ContainsFunc(p.gpus, func(g gpus.Rank) bool { return g.GPU != nil })
	return nil
}

// Describe describes the GPU of a rank, "" for none, and its cores.
func (p *Places) Describe(local int) (gpu, where string) {
	if p.gpus[local].GPU != nil {
		gpu = p.gpus[local].GPU.String()
	}
	if p.cores[local].Cores == nil {
		return gpu, "any of " + cores.List(p.allowed)
	}
	return gpu, p.cores[local].String()
}

// place chooses the cores and GPUs of the ranks of this host, and reports them where the user wants it.
func (sp *spawner) place(env []string) (err error) {
	h := sp.host
	p, err := PlaceRanks(h.job, h.index, sp.ranks, h.cfg.Cores, env)
	if err != nil {
		return err
	}
	sp.places = p
	for _, text := range p.Notices {
		h.cfg.Report(&wire.Note{Text: text})
	}
	if p.unknown != nil {
		h.cfg.Trace("ranks are bound to no cores: %v", p.unknown)
	}
	if slices.ContainsFunc(p.cores, func(c cores.Place) bool { return c.Cores != nil }) {
		list := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.allowed), "[]"), " ", ",")
		sp.file.Settings[CPUsSetting] = list
		if p.shared {
			sp.file.Settings[sharedCPUsSetting] = list
		}
	}
	for local := range p.ranks {
		sp.reportPlace(local)
	}
	return nil
}

// reportPlace reports what a rank has got, if the user wants it.
func (sp *spawner) reportPlace(local int) {
	gpu, where := sp.places.Describe(local)
	text := fmt.Sprintf("rank %d: %s", sp.places.ranks[local], strings.TrimPrefix(gpu+", "+where, ", "))
	if sp.host.job.ReportBindings {
		sp.host.cfg.Report(&wire.Note{Text: text})
	} else {
		sp.host.cfg.Trace("%s", text)
	}
}

// withBinding calls start with this thread bound to the cores of a rank, which the rank inherits.
func (sp *spawner) withBinding(local int, start func() error) error {
	list := sp.places.cores[local].Cores
	if list == nil {
		return start()
	}
	var mine, before unix.CPUSet
	for _, core := range list {
		mine.Set(core)
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
