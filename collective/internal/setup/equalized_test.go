package setup

import (
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// The links between hosts that are one machine, without limits between them, are made equal whatever was measured;
// slower ones, and those between separate machines, are not.
func TestEqualized(t *testing.T) {
	uneven := func(rate float64) *topo.Graph {
		return testutil.Hosts(4, 2, func(a, b int) float64 { return rate * float64(1+a+b) },
			func(h int) float64 { return rate * float64(3+h) })
	}
	one, two := []int{0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 0, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		g         *topo.Graph
		coreHosts []int
		want      bool
	}{
		"no limits": {uneven(3), one, true}, "limits": {uneven(0.1), one, false}, "two machines": {uneven(3), two, false},
		"unknown machines": {uneven(3), nil, false}, "one host": {topo.UniformGraph(4), []int{0, 0, 0, 0}, false},
	} {
		a := agreement{coreHosts: c.coreHosts}
		if g := a.equalized(c.g); (g != c.g) != c.want {
			t.Errorf("%s: want a graph of its own: %v", name, c.want)
		}
	}
}
