package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// A full graph has all pairs, those without NVLink through the host.
func TestFill(t *testing.T) {
	m := mesh(t)
	places := []int{0, 1, 2, 3, 4, 5, 6, 7, 7}
	g := graph(t, m, nil, places...)
	full, err := Fill(g, m, uuids(m, places...))
	if err != nil {
		t.Fatal(err)
	}
	kinds := make(map[string]int)
	for _, l := range full.Links {
		kinds[l.Kind]++
	}
	if len(full.Links) != 36 || kinds[KindHost] != 36-len(g.Links) || kinds[KindNVLink] != 20 || kinds[KindSame] != 1 {
		t.Errorf("%v", kinds)
	}
	if l := link(full, 0, 7); l.Kind != KindHost || l.GBytesPerSecond != SocketRate*hostShare ||
		l.Source != topo.Declared {
		t.Errorf("%+v", l)
	}
	if _, err := Fill(g, m, []string{"GPU-x"}); err == nil || !strings.Contains(err.Error(), "GPU-x") {
		t.Errorf("error %v", err)
	}
}

// Two hosts with a network between them keep that, and get the links of their GPUs.
func TestJoin(t *testing.T) {
	ranks := &topo.Graph{
		Ranks: 4, Hosts: []int{0, 1, 0, 1},
		Links: []topo.Link{
			{A: 0, B: 2, GBytesPerSecond: 5, Kind: "shm", Source: topo.Measured},
			{A: 1, B: 3, GBytesPerSecond: 5, Kind: "shm", Source: topo.Measured},
			{A: 0, B: 1, GBytesPerSecond: 1.25, Kind: topo.TCP, Source: topo.Measured},
		},
		Ports: []topo.Port{{Name: "card", Ranks: []int{1, 3}, GBytesPerSecond: 1.25},
			{Name: "socket", Ranks: []int{2}, GBytesPerSecond: 9}},
	}
	m := plain(2)
	part := graph(t, m, []Finding{{A: 0, B: 1, GBytesPerSecond: 11, LatencyUs: 3}}, 0, 1)
	g, err := Join(ranks, []Part{{[]int{0, 2}, part}, {[]int{1, 3}, part}})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Links) != 3 || link(g, 0, 1).Kind != topo.TCP || link(g, 0, 2).GBytesPerSecond != 11 ||
		link(g, 1, 3).Kind != KindPCIe {
		t.Errorf("links %v", g.Links)
	}
	if p := port(g, "card"); !slices.Equal(p.Ranks, []int{1, 3}) {
		t.Errorf("ports %v", g.Ports)
	}
	if p := port(g, "host 1: pcie of gpu 1"); !slices.Equal(p.Ranks, []int{3}) || p.GBytesPerSecond != 11 {
		t.Errorf("ports %v", g.Ports)
	}
	if port(g, "socket").Name != "" {
		t.Errorf("a port within a host stayed: %v", g.Ports)
	}
	if _, err := Join(ranks, []Part{{[]int{0, 2}, part}}); err == nil ||
		!strings.Contains(err.Error(), "graph is not connected") {
		t.Errorf("without the links of a host: %v", err)
	}
}

// TestReducingSwitches: the ports of H100 lead to NVSwitches that reduce data, those of A100 do not.
func TestReducingSwitches(t *testing.T) {
	for version, want := range map[int]string{3: "", 4: topo.NVLS, 5: topo.NVLS} {
		m := plain(4)
		for i := range m.GPUs {
			m.GPUs[i].NVLinks = []NVLink{{Version: version, Switch: true}, {Version: version, Switch: true}}
		}
		for _, p := range graph(t, m, nil, 0, 1, 2, 3).Ports {
			if p.Kind != want {
				t.Errorf("generation %d: %v, want the kind %q", version, p, want)
			}
		}
	}
}
