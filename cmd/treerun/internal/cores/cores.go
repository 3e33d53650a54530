// Package cores chooses the cores of a host to which the ranks of a job are bound, of those that the job may use there:
// it reads the parts of the machine from the files of the kernel. Every host of a job calls it for its own ranks. Only
// the packages below cmd/treerun import it.
package cores

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// Bind is the choice of cores for the ranks of a job.
type Bind int

// Values of --bind-to.
const (
	Auto Bind = iota // Core where that is quicker: see Plan
	Core             // each rank on its own share of the cores, or on one that it shares
	None             // the kernel chooses
)

// Request holds the user's settings for the cores of every host.
type Request struct {
	Bind          Bind
	MapBy         Level   // ranks are spread over the parts of this level
	PerRank       int     // cores of each rank; 0: not given
	Slots         []Slots // of a rank file, by rank; empty: there is none
	Oversubscribe bool    // ranks may share cores that the user has set for each
}

// Check reports an error if the request is invalid.
func (r *Request) Check() error {
	for i := range r.Slots {
		if err := r.Slots[i].check(); err != nil {
			return err
		}
	}
	if r.Bind == None && r.Explicit() {
		return errors.New("--bind-to none binds no rank: it cannot be combined with --cpus-per-rank, nor with --map-by " +
			"numa, socket or l3")
	}
	return errors.Join(job.Within("--bind-to %d", int(r.Bind), int(Auto), int(None)),
		job.Within("--map-by %d", int(r.MapBy), int(Whole), int(L3)),
		job.Within("--cpus-per-rank %d", r.PerRank, 0, maxCores),
		job.Within("slots of %d ranks", len(r.Slots), 0, job.MaxRanks))
}

// Explicit reports whether the user has set cores for each rank.
func (r *Request) Explicit() bool { return r.MapBy != Whole || r.PerRank > 0 || len(r.Slots) > 0 }

// Binds reports whether the user wants ranks to be bound.
func (r *Request) Binds() bool { return r.Bind == Core || r.Explicit() }

// Share describes the ranks of a host, and those that share its cores.
type Share struct {
	Ranks        []int   // of this host
	Near         [][]int // by rank of this host: the cores near its GPU; nil: it has none, or they are not known
	First, Total int     // of the Total ranks that share the cores, in hosts that are one machine, the First to Ranks[0]
	Usable       int     // number of cores by the quota of CPU time
	NUMANodes    int     // of the machine
}

// Place is where a rank is bound.
type Place struct {
	Cores []int  // nil: any
	Part  string // of the machine; "": not one alone
}

// String describes a place that has cores.
func (p Place) String() string {
	return strings.TrimSuffix(List(p.Cores)+" of "+p.Part, " of ")
}

// List names cores: "core 3", "cores 0-3".
func List(cores []int) string {
	return numbers.Plural(len(cores), "core") + " " + topo.RankList(slices.Sorted(slices.Values(cores)))
}

// common returns the values of a that b has, too.
func common(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(v int) bool { return !slices.Contains(b, v) })
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

// Plan returns the places of a host's ranks, in the order of s.Ranks.
//
// A rank with a GPU has all cores of its NUMA node, since it has threads that feed it, unless the user wants each rank
// to have a share of its own. Other ranks have what the user has set, else a share of all cores in two cases. The first
// is that every core has several ranks, and the same number of them: without binding, the kernel sometimes puts three
// of four ranks on one of two cores and leaves them there for longer than a small job takes: AllReduce of 8 bytes then
// takes 5.5 us in place of 3.2, with eight ranks 18 in place of 8. The second is that there are several nodes, whose
// memory is not equally near. Otherwise the kernel does as well on an idle machine, and better next to other programs:
// two ranks on two cores next to a busy program take 1.8 (4 MiB) to 25 times (8 KiB) as long in the mean when they are
// bound.
func (r *Request) Plan(m *Machine, s *Share) ([]Place, error) {
	plan := make([]Place, len(s.Ranks))
	if len(m.Allowed) == 0 || r.Bind == None {
		return plan, nil
	}
	near := make(map[string][]int) // by the cores near them: ranks, by number on this host
	for i, list := range s.Near {
		if own := common(m.Allowed, list); len(own) > 0 && len(own) < len(m.Allowed) {
			near[fmt.Sprint(own)] = append(near[fmt.Sprint(own)], i)
		}
	}
	divide := r.divides(len(m.Allowed), s)
	if !r.Explicit() && !divide && len(near) == 0 {
		return plan, nil
	}
	m = m.byNearness()
	if len(r.Slots) > 0 {
		return r.fromSlots(m, s)
	}
	if r.Explicit() || divide {
		parts, err := m.parts(r.MapBy)
		if err != nil {
			return nil, fmt.Errorf("--map-by: %w (hint: --map-by slot)", err)
		}
		all, err := r.deal(m, s, parts, s.Total, r.Bind == Core || !r.Explicit())
		if err != nil {
			return nil, err
		}
		copy(plan, all[s.First:])
	}
	for _, ranks := range near {
		places, err := r.deal(m, s, []Place{{Cores: common(m.Allowed, s.Near[ranks[0]])}}, len(ranks), r.Bind == Core)
		if err != nil {
			return nil, err
		}
		for k, i := range ranks {
			plan[i] = places[k]
		}
	}
	return plan, nil
}

// divides reports whether all cores of a host are divided among its ranks unless the user has set cores for each.
func (r *Request) divides(cores int, s *Share) bool {
	switch {
	case r.Bind == Core:
		return true
	case s.Usable < cores:
		return false // a quota of CPU time on all cores, as in a container, is not a share of the cores
	case s.Total <= cores:
		return s.NUMANodes > 1
	}
	return s.Total%cores == 0 // else the kernel moves ranks about, so that each is on a loaded core for a while only
}

// deal gives n ranks places on parts, one on each part in turn as long as it has room for more. Each gets its share of
// the part, or as many cores of that as the user has set; without both, all of the part.
func (r *Request) deal(m *Machine, s *Share, parts []Place, n int, divide bool) ([]Place, error) {
	room, total := make([]int, len(parts)), 0 // ranks that parts have room for
	for i, p := range parts {
		if room[i] = n; r.PerRank > 0 {
			room[i] = len(p.Cores) / r.PerRank
		}
		total += room[i]
	}
	if err := r.checkRoom(parts, total, n, s.Usable); err != nil {
		return nil, err
	}
	on, at, count := make([]int, n), make([]int, n), make([]int, len(parts))
	for k, i := 0, 0; k < n; i = (i + 1) % len(parts) {
		if count[i] < room[i]*(k/total+1) { // where ranks share cores, each lap of them has the same room
			on[k], at[k] = i, count[i]
			count[i]++
			k++
		}
	}
	places := make([]Place, n)
	for k, i := range on {
		own := parts[i].Cores
		switch {
		case r.PerRank > 0:
			own = m.apart(shareOf(own, at[k]%room[i], min(count[i], room[i])), r.PerRank)
		case divide:
			own = shareOf(own, at[k], count[i])
		}
		places[k] = Place{own, parts[i].Part}
	}
	return places, nil
}

// checkRoom returns an error where the cores that the user has set for each of n ranks are not there. The parts have
// room for total ranks, and the quota of CPU time is that of usable cores.
func (r *Request) checkRoom(parts []Place, total, n, usable int) error {
	if r.PerRank == 0 || total > 0 && (r.Oversubscribe || n <= min(total, usable/r.PerRank)) {
		return nil
	}
	most, all := 0, 0 // cores
	for _, p := range parts {
		most, all = max(most, len(p.Cores)), all+len(p.Cores)
	}
	where := numbers.Join(parts[:min(8, len(parts))], ", ")
	if total == 0 {
		hint := fmt.Sprintf("--cpus-per-rank %d", most)
		if r.PerRank <= all {
			hint = "--map-by slot"
		}
		return fmt.Errorf("--cpus-per-rank %d: a rank can have at most %s here: %s (hint: %s)", r.PerRank,
			numbers.Count(most, "core"), where, hint)
	}
	room := fmt.Sprintf("there is room for %s, not %d, on %s", numbers.Count(total, "rank"), n, where)
	if fewer := usable / r.PerRank; fewer < total {
		room = fmt.Sprintf("the quota of CPU time, %s, is for %s, not %d", numbers.Count(usable, "core"),
			numbers.Count(fewer, "rank"), n)
	}
	return fmt.Errorf("--cpus-per-rank %d: %s (hint: --oversubscribe lets ranks share cores)", r.PerRank, room)
}
