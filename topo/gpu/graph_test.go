package gpu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/topo"
)

// make returns n GPUs on PCIe 3.0 x16, the first half of them on NUMA node 0, with
// a PCIe switch for every two.
func plain(n int) *Machine {
	m := &Machine{Driver: "550.54"}
	for i := range n {
		m.GPUs = append(m.GPUs, GPU{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), PCI: fmt.Sprintf("0000:%02x:00.0", 16*i+7), NUMA: 2 * i / n,
			PCIeGeneration: 3, PCIeWidth: 16, MemoryRate: 900,
		})
	}
	for a := range n {
		m.Levels = append(m.Levels, make([]Level, n))
		for b := range n {
			switch {
			case a/2 == b/2:
				m.Levels[a][b] = LevelSwitch
			case m.GPUs[a].NUMA == m.GPUs[b].NUMA:
				m.Levels[a][b] = LevelRoot
			default:
				m.Levels[a][b] = LevelSystem
			}
		}
	}
	return m
}

// mesh returns plain(8) with the NVLinks of a DGX-1 with V100, as machines has it.
func mesh(t *testing.T) *Machine {
	t.Helper()
	want, ok := topo.Machine("dgx1v")
	if !ok {
		t.Fatal("no dgx1v")
	}
	m := plain(8)
	for _, l := range want.Links {
		for range int(l.GBytesPerSecond / 25) {
			m.GPUs[l.A].NVLinks = append(m.GPUs[l.A].NVLinks, NVLink{Version: 2, Remote: m.GPUs[l.B].PCI})
			m.GPUs[l.B].NVLinks = append(m.GPUs[l.B].NVLinks, NVLink{Version: 2, Remote: m.GPUs[l.A].PCI})
		}
	}
	return m
}

func uuids(m *Machine, places ...int) []string {
	var list []string
	for _, p := range places {
		list = append(list, m.GPUs[p].UUID)
	}
	return list
}

func graph(t *testing.T, m *Machine, found []Finding, places ...int) *topo.Graph {
	t.Helper()
	g, err := Graph(m, uuids(m, places...), found)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// link returns the link of two ranks, the zero Link for none.
func link(g *topo.Graph, a, b int) topo.Link {
	i := slices.IndexFunc(g.Links, func(l topo.Link) bool { return l.A == a && l.B == b })
	if i < 0 {
		return topo.Link{}
	}
	return g.Links[i]
}

func port(g *topo.Graph, name string) topo.Port {
	i := slices.IndexFunc(g.Ports, func(p topo.Port) bool { return p.Name == name })
	if i < 0 {
		return topo.Port{}
	}
	return g.Ports[i]
}

// NVML's description of a DGX-1 gives the graph of the data sheet: PCIe is left out where NVLinks join all.
func TestGraphOfMesh(t *testing.T) {
	want, _ := topo.Machine("dgx1v")
	g := graph(t, mesh(t), nil, 0, 1, 2, 3, 4, 5, 6, 7)
	if len(g.Links) != len(want.Links) || len(g.Ports) != 0 {
		t.Fatalf("%d links and %d ports, want %d and none", len(g.Links), len(g.Ports), len(want.Links))
	}
	for _, l := range want.Links {
		if got := link(g, l.A, l.B); got != l {
			t.Errorf("link %+v, want %+v", got, l)
		}
	}
}

// Eight GPUs on NVSwitches are even, and the port of each is the limit.
func TestGraphOfSwitch(t *testing.T) {
	m := plain(8)
	for i := range m.GPUs {
		for k := range 12 {
			m.GPUs[i].NVLinks = append(m.GPUs[i].NVLinks,
				NVLink{Version: 3, Switch: true, Remote: fmt.Sprintf("0000:c%d:00.0", k/2)})
		}
	}
	want, _ := topo.Machine("dgxa100")
	g := graph(t, m, nil, 0, 1, 2, 3, 4, 5, 6, 7)
	if !slices.Equal(g.Links, want.Links) {
		t.Errorf("links\n%v\nwant\n%v", g.Links, want.Links)
	}
	if p := port(g, "nvlinks of gpu 3"); len(g.Ports) != 8 || p.GBytesPerSecond != 300 || p.Kind != "" {
		t.Errorf("ports %v", g.Ports)
	}
	m.GPUs[5].NVLinks = m.GPUs[5].NVLinks[:6] // half of its links are down
	g = graph(t, m, nil, 0, 1, 2, 3, 4, 5, 6, 7)
	if link(g, 0, 5).GBytesPerSecond != 150 || link(g, 0, 1).GBytesPerSecond != 300 ||
		port(g, "nvlinks of gpu 5").GBytesPerSecond != 150 {
		t.Errorf("with links down: %v %v", link(g, 0, 5), port(g, "nvlinks of gpu 5"))
	}
}

// GPUs without NVLink share slots, switches and sockets.
func TestGraphOfPCIe(t *testing.T) {
	g := graph(t, plain(8), nil, 0, 1, 2, 3, 4, 5, 6, 7)
	if len(g.Links) != 28 {
		t.Fatalf("%d links", len(g.Links))
	}
	slot := 8 * 128.0 / 130 / 8 * 16
	for pair, want := range map[[2]int]float64{{0, 1}: slot, {0, 2}: slot, {0, 7}: SocketRate} {
		if l := link(g, pair[0], pair[1]); math.Abs(l.GBytesPerSecond-want) > 1e-9 || l.Kind != KindPCIe ||
			l.Source != topo.Declared {
			t.Errorf("link %+v, want %v GB/s", l, want)
		}
	}
	if len(g.Ports) != 8+4+1 {
		t.Errorf("%d ports: %v", len(g.Ports), g.Ports)
	}
	if p := port(g, "socket of gpu 0"); p.GBytesPerSecond != SocketRate ||
		!slices.Equal(p.Ranks, []int{0, 1, 2, 3}) {
		t.Errorf("%v", p)
	}
	if p := port(g, "pcie switch of gpu 2"); !slices.Equal(p.Ranks, []int{2, 3}) {
		t.Errorf("%v", p)
	}
}

// Bridges join pairs; PCIe joins the pairs, and a pair shares nothing that a
// bridge bypasses.
func TestGraphOfBridges(t *testing.T) {
	m := plain(4)
	for i := range m.GPUs {
		m.GPUs[i].NVLinks = []NVLink{{Version: 4, Remote: m.GPUs[i^1].PCI}}
	}
	g := graph(t, m, nil, 0, 1, 2, 3)
	if len(g.Links) != 6 || link(g, 2, 3).Kind != KindNVLink || link(g, 1, 2).Kind != KindPCIe {
		t.Errorf("links %v", g.Links)
	}
	var names []string
	for _, p := range g.Ports {
		names = append(names, p.Name)
	}
	if fmt.Sprint(names) != "[pcie switch of gpu 0 pcie switch of gpu 2 socket of gpu 0]" {
		t.Errorf("ports %q", names)
	}
}

// Ranks that share a GPU have a link within it, and each its own to the others.
func TestGraphOfSharedGPU(t *testing.T) {
	m := mesh(t)
	g := graph(t, m, nil, 0, 0, 3, 3)
	if l := link(g, 0, 1); l.Kind != KindSame || l.GBytesPerSecond != 450 {
		t.Errorf("%+v", l)
	}
	if l := link(g, 1, 2); l.Kind != KindNVLink || l.GBytesPerSecond != 50 {
		t.Errorf("%+v", l)
	}
	if p := port(g, "nvlinks of gpu 3"); p.GBytesPerSecond != 50 || !slices.Equal(p.Ranks, []int{2, 3}) {
		t.Errorf("%+v", g.Ports)
	}
	g = graph(t, m, nil, 5, 5, 5)
	if len(g.Links) != 3 || len(g.Ports) != 0 || !g.IsUniform() {
		t.Errorf("%v", g)
	}
	if g = graph(t, m, nil, 5); len(g.Links) != 0 {
		t.Errorf("one rank: %v", g)
	}
}

// A pair that the driver keeps apart goes through the host, if nothing else joins it.
func TestGraphOfRefused(t *testing.T) {
	m := plain(2)
	m.Refused = [][]string{{"", "they are on different sockets"}, {"", ""}}
	if l := link(graph(t, m, nil, 0, 1), 0, 1); l.Kind != KindHost || l.GBytesPerSecond != PCIeRate(3, 16)/2 {
		t.Errorf("%+v", l)
	}
}

// A measured value takes the place of the declared one, which is kept next to it; links with the same declared value
// and similar measured ones become equal; links with a fault go.
func TestGraphMeasured(t *testing.T) {
	m := mesh(t)
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	var found []Finding
	for i, l := range graph(t, m, nil, all...).Links {
		found = append(found, Finding{A: l.A, B: l.B, GBytesPerSecond: l.GBytesPerSecond * (0.9 + 0.001*float64(i)),
			LatencyUs: 2})
	}
	g := graph(t, m, found, all...)
	one, two := link(g, 0, 1), link(g, 0, 3)
	if one.Declared != 25 || one.Source != topo.Measured || one.LatencyUs != 2 || two.Declared != 50 {
		t.Errorf("%+v %+v", one, two)
	}
	for _, l := range g.Links {
		if want := map[float64]float64{25: one.GBytesPerSecond,
			50: two.GBytesPerSecond}[l.Declared]; l.GBytesPerSecond != want {
			t.Errorf("%+v is not level: want %v", l, want)
		}
	}
	if !strings.Contains(g.String(), "declared, where it was measured") {
		t.Errorf("text:\n%s", g)
	}

	found[2] = Finding{A: 0, B: 3, Fault: "wrong data"}
	found[3].GBytesPerSecond = 20 // 0-4 is much slower than others of two NVLinks
	g = graph(t, m, found, all...)
	if len(g.Links) != 15 || link(g, 0, 3).Kind != "" || link(g, 0, 4).GBytesPerSecond != 20 {
		t.Errorf("%v", g)
	}
	drops := Dropped(found)
	if len(drops) != 1 || drops[0] != (Drop{0, 3, "wrong data"}) ||
		drops[0].Line([]int{8, 9, 10, 11}, uuids(m,
			all...)) != "the link of ranks 8 and 11 (GPU-0, GPU-3) is not used: wrong data" {
		t.Errorf("%+v", drops)
	}

	found = []Finding{{A: 0, B: 1, Fault: "hung"}} // nothing else joins these two
	if l := link(graph(t, plain(2), found, 0, 1), 0, 1); l.Kind != KindHost || l.Source != topo.Declared {
		t.Errorf("%+v", l)
	}
}

// A link over PCIe that is a tenth quicker the other way is written over; one over NVLink is not.
func TestPush(t *testing.T) {
	for _, c := range []struct {
		pull, push float64
		kind       string
		rate       float64
	}{{8, 12, KindPush, 12}, {8, 8.8, KindPush, 8.8}, {8, 8.7, KindPCIe, 8}, {8, 4, KindPCIe, 8}, {8, 0, KindPCIe, 8}} {
		found := []Finding{{A: 0, B: 1, GBytesPerSecond: c.pull, Push: c.push, LatencyUs: 1}}
		if l := link(graph(t, plain(2), found, 0, 1), 0, 1); l.Kind != c.kind || l.GBytesPerSecond != c.rate {
			t.Errorf("%+v: link %+v", c, l)
		}
	}
	found := []Finding{{A: 0, B: 1, GBytesPerSecond: 20, Push: 40, LatencyUs: 1}}
	if l := link(graph(t, mesh(t), found, 0, 1), 0, 1); l.Kind != KindNVLink || l.GBytesPerSecond != 20 {
		t.Errorf("link %+v", l)
	}
}

// One flow fills the port of a GPU, and no port is slower than a flow through it.
func TestPortsMeasured(t *testing.T) {
	m := plain(4)
	found := []Finding{
		{A: 0, B: 1, GBytesPerSecond: 13, LatencyUs: 1}, {A: 0, B: 2, GBytesPerSecond: 12.5, LatencyUs: 1},
		{A: 0, B: 3, GBytesPerSecond: 12.6, LatencyUs: 1},
		{A: 1, B: 3, GBytesPerSecond: 12.5, LatencyUs: 1},
	}
	g := graph(t, m, found, 0, 1, 2, 3)
	if p := port(g, "pcie of gpu 0"); p.GBytesPerSecond != 13 {
		t.Errorf("all its links are measured: %+v", p)
	}
	if p := port(g, "pcie of gpu 1"); p.GBytesPerSecond <= 15 {
		t.Errorf("not all of its links are measured: %+v", p)
	}
	if p := port(g, "socket of gpu 0"); p.GBytesPerSecond < 12.5 {
		t.Errorf("a flow was quicker: %+v", p)
	}
}

// A rate that copies over PCIe cannot have excludes PCIe: each GPU has a port to a switch, and no port of PCIe is
// there.
func TestGraphTooFast(t *testing.T) {
	var found []Finding
	for a := range 4 {
		for b := a + 1; b < 4; b++ {
			found = append(found, Finding{A: a, B: b, GBytesPerSecond: 380 + float64(a), LatencyUs: 2})
		}
	}
	g := graph(t, plain(4), found, 0, 1, 2, 3)
	for _, l := range g.Links {
		if l.Kind != KindNVSwitch || l.Source != topo.Measured || l.GBytesPerSecond < 380 || l.Declared > 16 {
			t.Errorf("%+v", l)
		}
	}
	if len(g.Ports) != 4 {
		t.Errorf("ports %+v", g.Ports)
	}
	for _, p := range g.Ports {
		if len(p.Ranks) != 1 || p.GBytesPerSecond < 380 || !strings.Contains(p.Name, "nvlinks") {
			t.Errorf("%+v", p)
		}
	}
	for i := range found {
		found[i].GBytesPerSecond = 20 // within the bandwidth of a slot, more than the socket's declared rate
	}
	for _, l := range graph(t, plain(4), found, 0, 1, 2, 3).Links {
		if l.Kind != KindPCIe {
			t.Errorf("%+v", l)
		}
	}
}

func TestGraphRefuses(t *testing.T) {
	m := plain(2)
	for want, try := range map[string]func() error{
		"rank 1 runs on GPU GPU-9": func() error { _, err := Graph(m, []string{"GPU-0", "GPU-9"}, nil); return err },
		"measured the pair 1-1":    func() error { _, err := Graph(m, uuids(m, 0, 1), []Finding{{A: 1, B: 1}}); return err },
		"needs one of its own": func() error {
			twice := plain(2)
			twice.GPUs[1].UUID = "GPU-0"
			return twice.Validate()
		},
		"has number 0": func() error {
			twice := plain(2)
			twice.GPUs[1].Index = 0
			return twice.Validate()
		},
		"levels of 1 GPUs": func() error { return (&Machine{GPUs: m.GPUs, Levels: m.Levels[:1]}).Validate() },
		"to 1 others":      func() error { return (&Machine{GPUs: m.GPUs, Levels: [][]Level{{0, 0}, {0}}}).Validate() },
		"access of 1 GPUs": func() error { return (&Machine{GPUs: m.GPUs, Refused: [][]string{{"", ""}}}).Validate() },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// For any machine and any measurement, the graph is valid, joins all ranks, and is the same with every call.
func TestGraphAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "gpus")
		m := plain(n)
		for i := range m.GPUs {
			g := &m.GPUs[i]
			g.NUMA = rapid.IntRange(-1, 2).Draw(t, "numa")
			g.PCIeGeneration, g.PCIeWidth = rapid.IntRange(0, 7).Draw(t, "generation"), rapid.IntRange(0, 16).Draw(t, "width")
			for range rapid.IntRange(0, 3).Draw(t, "nvlinks") {
				g.NVLinks = append(g.NVLinks, NVLink{
					Version: rapid.IntRange(0, 9).Draw(t, "version"), Switch: rapid.Bool().Draw(t, "switch"),
					Remote: m.GPUs[rapid.IntRange(0, n-1).Draw(t, "remote")].PCI,
				})
			}
		}
		if rapid.Bool().Draw(t, "refusals") {
			m.Refused = make([][]string, n)
			for i := range n {
				m.Refused[i] = make([]string, n)
				m.Refused[i][rapid.IntRange(0, n-1).Draw(t, "refused")] = "no"
			}
		}
		places := rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 8).Draw(t, "ranks")
		var found []Finding
		for a := range places {
			for b := a + 1; b < len(places); b++ {
				f := Finding{A: a, B: b, GBytesPerSecond: rapid.Float64Range(0, 500).Draw(t, "rate"),
					LatencyUs: rapid.Float64Range(0, 9).Draw(t, "latency")}
				if rapid.IntRange(0, 3).Draw(t, "fault") == 0 {
					f.Fault = "hung"
				}
				found = append(found, f)
			}
		}
		g, err := Graph(m, uuids(m, places...), found)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Graph(m, uuids(m, places...), found)
		first, _ := g.AppendJSON(nil)
		second, _ := again.AppendJSON(nil)
		if string(first) != string(second) {
			t.Fatalf("two graphs of one machine:\n%s\n%s", first, second)
		}
		back, err := topo.ParseGraph(first)
		if err != nil {
			t.Fatal(err)
		}
		if third, _ := back.AppendJSON(nil); string(third) != string(first) {
			t.Fatalf("comes back as\n%s\nwritten\n%s", third, first)
		}
		for _, f := range found {
			if l := link(g, f.A, f.B); f.Fault != "" && l.Kind != "" && l.Kind != KindHost {
				t.Fatalf("a link with a fault is used: %+v", l)
			}
		}
	})
}

func TestInOrder(t *testing.T) {
	list := InOrder([]GPU{
		{Index: 0, NUMA: -1, PCI: "0000:01:00.0"}, {Index: 1, NUMA: 1, PCI: "0000:84:00.0"},
		{Index: 2, NUMA: 0, PCI: "0001:06:00.0"}, {Index: 3, NUMA: 0, PCI: "0000:0b:00.0"},
	})
	got := ""
	for _, g := range list {
		got += fmt.Sprint(g.Index)
	}
	if got != "3210" {
		t.Errorf("order %s", got)
	}
}

func TestNormalPCI(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:0B:00.0": "0000:0b:00.0", "0000:17:00.0": "0000:17:00.0", "00010000:17:00.0": "10000:17:00.0",
		"17:00.0": "17:00.0", "": "", " 00000001:00:1F.7\n": "0001:00:1f.7",
	} {
		if got := NormalPCI(in); got != want {
			t.Errorf("NormalPCI(%q) = %q, want %q", in, got, want)
		}
	}
}

// The declared rates are those of the data sheets named next to them.
func TestRates(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{4 * nvlinkRate(1), 80}, {6 * nvlinkRate(2), 150}, {12 * nvlinkRate(3), 300}, {18 * nvlinkRate(4), 450},
		{18 * nvlinkRate(5), 900}, {nvlinkRate(0), 25},
		{PCIeRate(3, 16), 15.754}, {PCIeRate(4, 16), 31.508}, {PCIeRate(5, 16), 63.015}, {PCIeRate(1, 1), 0.25},
		{PCIeRate(0, 0), 15.754}, {PCIeRate(9, 16), 121},
	} {
		if math.Abs(c.got-c.want) > 0.001*c.want {
			t.Errorf("%v GB/s, want %v", c.got, c.want)
		}
	}
}
