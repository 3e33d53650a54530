package planner

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// wants tells whether an algorithm is to be tried. Where auto leaves one out
// because it would take long, that is noted.
func (r *request) wants(a *algorithm) bool {
	if r.algorithm != "auto" {
		return a.name == r.algorithm
	}
	several := len(plan.Hosts(r.g)) > 1
	if !r.suits(a.name) || a.name == "hierarchical" && !several {
		return false
	}
	most := a.most
	if several {
		most = a.hosts
	}
	if r.g.Ranks > most {
		r.untried = append(r.untried, fmt.Sprintf("%s (up to %d)", a.name, most))
		return false
	}
	return true
}

// leftOut is a note on the algorithms that auto did not try; none where it tried
// all.
func (r *request) leftOut() []string {
	if len(r.untried) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("auto did not try, for the time that %d ranks take: %s; --algorithm does", r.g.Ranks, strings.Join(r.untried, ", "))}
}

// autoLimits is the part of the help that says where auto leaves algorithms out.
func autoLimits() string {
	var one, several []string
	for _, a := range algorithms {
		if a.most < topo.MaxRanks {
			one = append(one, fmt.Sprintf("%s %d", a.name, a.most))
			several = append(several, fmt.Sprintf("%s %d", a.name, a.hosts))
		}
	}
	return "auto tries algorithms up to so many ranks, double-binary always: on one host\n" +
		strings.Join(one, ", ") + ";\non several " + strings.Join(several, ", ") + ".\n"
}
