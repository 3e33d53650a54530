package collective

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/treerun/treerun/collective/plan"
)

// tuning is what was measured to be best on this machine, from a tuning file.
type tuning struct {
	byKind map[plan.Kind][]choice
}

// choices returns the measured choices for kind, nil when there are none or
// they name a shape that is not offered.
func (t *tuning) choices(kind plan.Kind, offered []shape) []choice {
	if t == nil {
		return nil
	}
	all := t.byKind[kind]
	for _, c := range all {
		known := false
		for _, s := range offered {
			known = known || s == c.shape
		}
		if !known {
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
