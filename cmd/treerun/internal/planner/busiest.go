package planner

import (
	"fmt"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// balanced are the algorithms whose trees, one per root, carry equal parts: all
// of them move at the pace of the busiest link.
var balanced = []string{"multi", "kl", "exact"}

// busiest says which link or port the trees of such an algorithm use most. The
// unit is the slowest link of the graph: on a DGX-1V a single NVLink. A tree uses
// a link once, whichever way; on the way up, as on the way down, it uses one
// direction of it.
func (d *design) busiest() []string {
	if !slices.Contains(balanced, d.Algorithm) || d.r.kind != plan.AllReduce || len(d.Strands) < 2 {
		return nil
	}
	g := d.r.g
	var all []topo.Tree
	for _, s := range d.Strands {
		all = append(all, s.Tree)
	}
	links, ports := g.Loads(all, nil)
	unit := math.Inf(1)
	for _, l := range links {
		unit = min(unit, l.Capacity)
	}
	name, most := "", links[0]
	for i, l := range links {
		if name == "" || l.Congestion() > most.Congestion()*(1+1e-9) {
			name, most = fmt.Sprintf("link %d-%d", g.Links[i].A, g.Links[i].B), l
		}
	}
	for i, l := range ports {
		if l.Congestion() > most.Congestion()*(1+1e-9) {
			name, most = fmt.Sprintf("port %q", g.Ports[i].Name), l
		}
	}
	up := map[[2]int]int{} // by child and parent
	for _, t := range all {
		for v, p := range t.Parent {
			up[[2]int{v, p}]++
		}
	}
	oneWay := 0.0
	for _, l := range g.Links {
		uses := max(up[[2]int{l.A, l.B}], up[[2]int{l.B, l.A}])
		oneWay = max(oneWay, float64(uses)*unit/l.GBytesPerSecond)
	}
	return []string{
		fmt.Sprintf("busiest: %s, %d uses of %.4g GB/s: %.4g uses per %.4g GB/s, the rate of the slowest link", name,
			most.Uses, most.Capacity, most.Congestion()*unit, unit),
		fmt.Sprintf("on the way up alone, as on the way down, no direction of a link has more than %.4g uses per %.4g GB/s",
			oneWay, unit),
	}
}
