package collective

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// tuning is what was measured to be best on this machine: the part of a Tuning
// that plans are chosen by.
type tuning struct {
	from   string // the file, for people
	ranks  int
	byKind map[plan.Kind][]choice
}

// tuningOf takes the choices from a file's contents, which are valid.
func tuningOf(t *Tuning, from string) *tuning {
	u := &tuning{from: from, ranks: t.Ranks, byKind: make(map[plan.Kind][]choice)}
	for _, k := range t.Collectives {
		for _, c := range k.Choices {
			s, _ := shapeOf(c.Shape)
			below := math.MaxInt
			if c.BelowBytes > 0 {
				below = int(c.BelowBytes)
			}
			u.byKind[k.Collective] = append(u.byKind[k.Collective], choice{below: below, shape: s, us: math.NaN()})
		}
	}
	return u
}

// forRanks returns t, nil where it was measured with another number of ranks:
// a communicator of some of the ranks goes by prices.
func (t *tuning) forRanks(n int) *tuning {
	if t == nil || t.ranks != n {
		return nil
	}
	return t
}

// shapes returns the shapes that t names, in their order.
func (t *tuning) shapes() []shape {
	if t == nil {
		return nil
	}
	var list []shape
	for _, all := range t.byKind {
		for _, c := range all {
			list = append(list, c.shape)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// choices returns the measured choices for kind, nil when there are none or
// they name a shape that is not offered.
func (t *tuning) choices(kind plan.Kind, offered []shape) []choice {
	if t == nil {
		return nil
	}
	all := t.byKind[kind]
	for _, c := range all {
		if !slices.Contains(offered, c.shape) {
			return nil
		}
	}
	if len(all) == 0 || all[len(all)-1].below != math.MaxInt {
		return nil
	}
	return all
}

// String names the choices, "none" without any.
func (t *tuning) String() string {
	if t == nil {
		return "none"
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(t.byKind)) {
		fmt.Fprintf(&b, "%s: %s; ", kind, choicesText(t.byKind[kind]))
	}
	return b.String()
}
