package cores

import (
	"errors"
	"slices"
)

// Group is those of a host's ranks that have the same settings.
type Group struct {
	Request
	Share
	Places []Place // set by PlanAll, in the order of Ranks
}

// PlanAll sets the places of groups. Those with --cpus-per-rank come first, in the order of groups; the others have the
// cores that these leave. With Oversubscribe a group for which too few are left shares cores with others.
func PlanAll(m *Machine, groups []*Group) error {
	left, used := *m, 0
	ownFirst := func(a, b *Group) int { return min(1, b.PerRank) - min(1, a.PerRank) }
	for _, g := range slices.SortedStableFunc(slices.Values(groups), ownFirst) {
		share := g.Share
		share.Usable -= used
		var err error
		g.Places, err = g.Plan(&left, &share)
		if used > 0 && len(left.Allowed) == 0 && (g.Explicit() || g.Bind == Core) {
			err = errors.New("--cpus-per-rank of other programs of the job leaves no core (hint: fewer cores or ranks, " +
				"--bind-to none, or --oversubscribe before the first program)")
		}
		if err != nil && used > 0 && g.Oversubscribe {
			g.Places, err = g.Plan(m, &g.Share)
		}
		if err != nil {
			return err
		}
		if g.PerRank > 0 && len(groups) > 1 {
			taken := g.taken(&left)
			used += len(taken)
			left.Allowed = slices.DeleteFunc(slices.Clone(left.Allowed), func(core int) bool {
				return slices.Contains(taken, core)
			})
		}
	}
	return nil
}

// taken returns the cores that the ranks of a planned group have, with those of the group on other hosts of the
// machine.
func (g *Group) taken(m *Machine) (taken []int) {
	all := g.Share
	all.Ranks, all.Near, all.First = make([]int, all.Total), nil, 0
	others, _ := g.Plan(m, &all) // Plan has found room for them
	for _, p := range slices.Concat(g.Places, others) {
		taken = append(taken, p.Cores...)
	}
	slices.Sort(taken)
	return slices.Compact(taken)
}
