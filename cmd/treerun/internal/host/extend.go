//go:build linux

package host

import (
	"os"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// extend makes room for one more rank of this host, and returns its local number.
func (sp *spawner) extend(rank int) (local int, err error) {
	lives := func(rank int) bool {
		return slices.ContainsFunc(sp.host.children, func(c *child) bool { return c.rank == rank && !c.ended })
	}
	more, err := sp.places.with(sp.host.job, rank, sp.host.cfg.Cores, lives, sp.env)
	if err != nil {
		return 0, err
	}
	local = len(sp.ranks)
	sp.places, sp.ranks = more, append(slices.Clip(sp.ranks), rank)
	sp.reportPlace(local)
	return local, nil
}

// with returns p with one more rank. It has a GPU that no living rank has, or else shares that of a rank with the same
// program. With --cpus-per-rank it has cores that no living rank has, with a rank file any cores, and else it shares
// those of a rank with the same program. Where the host has no such rank, it has any cores.
func (p *Places) with(j *wire.Run, rank, usable int, lives func(rank int) bool, env []string) (*Places, error) {
	more, like := *p, make([]int, 0, len(p.ranks))
	for local, r := range p.ranks {
		if j.PartOf(r) == j.PartOf(rank) {
			like = append(like, local)
		}
	}
	var place cores.Place
	gpu := p.unusedGPU(j.ShareOf(rank).GPUs, len(like)+1, lives, env)
	if n := len(like); n > 0 {
		local := like[len(p.ranks)%n]
		if place = p.cores[local]; gpu == nil {
			gpu = &p.gpus[local]
		}
	}
	if gpu == nil {
		gpu = new(gpus.Rank)
	}
	switch r := j.ShareOf(rank).CoresOf(j.Cores); {
	case len(r.Slots) > 0:
		place = cores.Place{}
	case r.PerRank > 0 && len(p.allowed) > 0:
		own, err := p.unusedCores(r, rank, usable, lives, gpu)
		if err != nil && (!r.Oversubscribe || len(like) == 0) {
			return nil, err
		}
		if err == nil {
			place = own
		}
	}
	more.ranks, more.cores = append(slices.Clip(p.ranks), rank), append(slices.Clip(p.cores), place)
	more.gpus = append(slices.Clip(p.gpus), *gpu)
	return &more, nil
}

// unusedGPU returns a GPU of those that n ranks of a program would get, and that no living rank has, nil for none.
func (p *Places) unusedGPU(r gpus.Request, n int, lives func(rank int) bool, env []string) *gpus.Rank {
	plan, err := gpus.Assign(r, gpus.Share{Ranks: n, Total: n}, env)
	if err != nil { // there are too few
		return nil
	}
	held := make(map[string]bool) // by UUID
	for local, other := range p.ranks {
		if gpu := p.gpus[local].GPU; gpu != nil && lives(other) {
			held[gpu.UUID] = true
		}
	}
	for i := range plan.Ranks {
		if own := &plan.Ranks[i]; !held[own.GPU.UUID] {
			return own
		}
	}
	return nil
}

// unusedCores returns as many cores as the user has set for each rank, of those that no living rank has.
func (p *Places) unusedCores(r cores.Request, rank, usable int, lives func(int) bool, gpu *gpus.Rank) (cores.Place,
	error) {
	m := &cores.Machine{Allowed: slices.Clone(p.allowed), System: os.DirFS("/")}
	used := 0
	for local, other := range p.ranks {
		if own := p.cores[local].Cores; lives(other) {
			used += len(own)
			m.Allowed = slices.DeleteFunc(m.Allowed, func(core int) bool { return slices.Contains(own, core) })
		}
	}
	if len(m.Allowed) < r.PerRank || usable-used < r.PerRank {
		return cores.Place{}, cmdline.Usagef("rank %d: --cpus-per-rank %d, but other ranks have %d of the %d cores of this "+
			"host (hint: --oversubscribe lets ranks share cores)", rank, r.PerRank, used, min(usable, len(p.allowed)))
	}
	s := &cores.Share{Ranks: []int{rank}, Near: [][]int{nil}, Total: 1, Usable: usable - used, NUMANodes: m.NUMANodes()}
	if gpu.GPU != nil {
		s.Near[0] = gpu.GPU.CPUs
	}
	r.Oversubscribe = false
	plan, err := r.Plan(m, s)
	if err != nil {
		return cores.Place{}, cmdline.Usagef("rank %d: %w", rank, err)
	}
	return plan[0], nil
}
