package topo

import (
	"fmt"
	"strings"
	"testing"
)

// TestDoubts: the machines are beyond doubt, and so are hosts with one card, with a wire, and with ports of ranks.
// Ports of groups around links between all pairs are not.
func TestDoubts(t *testing.T) {
	for _, name := range Machines() {
		g, _ := Machine(name)
		if list := g.Doubts(); list != nil {
			t.Errorf("%s: %q", name, list)
		}
	}
	// two hosts of four ranks, with a card for every rank, and links of 10 between all
	pairs := func(kind string, ports ...Port) *Graph {
		g := UniformGraph(8)
		g.Hosts = []int{0, 0, 0, 0, 1, 1, 1, 1}
		g.Ports = ports
		for i := range g.Links {
			g.Links[i].GBytesPerSecond, g.Links[i].Kind = 10, kind
		}
		return g
	}
	port := func(rate float64, ranks ...int) Port {
		return Port{Name: fmt.Sprint("of ", ranks), Ranks: ranks, GBytesPerSecond: rate}
	}
	host := []int{0, 1, 2, 3}
	rails := pairs("infiniband", port(40, host...))
	for i := 0; i < len(rails.Links); {
		if l := rails.Links[i]; l.A/4 != l.B/4 && l.B != l.A+4 {
			rails.Links = append(rails.Links[:i], rails.Links[i+1:]...)
		} else {
			i++
		}
	}
	var own []Port
	for r := range 8 {
		own = append(own, port(10, r))
	}
	for name, c := range map[string]struct {
		g    *Graph
		want string // the ranks; "" for none
	}{
		"cards of a host":    {pairs("infiniband", port(40, host...)), "ranks 0-3 "},
		"two cards of four":  {pairs("pcie", port(20, 1, 2)), "ranks 1,2 "},
		"of another socket":  {pairs("pcie", port(40, host...), port(40, 4, 5, 6, 7), port(10, 2)), "ranks 0,1,3 "},
		"a port around both": {pairs("pcie", port(20, 0, 1), port(5, 0, 1, 2)), "ranks 0,1 "},
		"one card":           {pairs("infiniband", port(10, host...)), ""},
		"little more":        {pairs("infiniband", port(14, host...)), ""},
		"rails":              {rails, ""},
		"a wire":             {pairs(TCP, port(40, host...)), ""},
		"cores":              {pairs("shm", port(40, host...)), ""},
		"ports of ranks":     {pairs("pcie", append(own, port(40, host...))...), ""},
		"switches":           {pairs("pcie", port(10, 0, 1), port(10, 2, 3), port(40, host...)), ""},
		"of one rank":        {pairs("pcie", port(40, 3)), ""},
	} {
		if err := c.g.Validate(); err != nil {
			t.Fatal(name, err)
		}
		list := c.g.Doubts()
		if c.want == "" && list != nil || c.want != "" && (list == nil || !strings.Contains(list[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, list, c.want)
		}
	}
	var many []Port
	for r := range 7 {
		many = append(many, port(20, r, r+1))
	}
	if list := pairs("pcie", many...).Doubts(); len(list) != 5 || list[4] != "3 more ports are like these" {
		t.Errorf("%q", list)
	}
}
