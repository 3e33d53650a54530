package collective

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Hosts that are one machine, without limits between them, are alike whatever was
// measured; slower ones, and those that are machines of their own, are not.
func TestLevelled(t *testing.T) {
	uneven := func(rate float64) *topo.Graph {
		return networkOf(4, 2, func(a, b int) float64 { return rate * float64(1+a+b) }, func(h int) float64 { return rate * float64(3+h) })
	}
	one, two := []int{0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 0, 0, 0, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		g     *topo.Graph
		boxes []int
		want  bool
	}{
		"no limits": {uneven(3), one, true}, "limits": {uneven(0.1), one, false}, "two machines": {uneven(3), two, false},
		"unknown machines": {uneven(3), nil, false}, "one host": {topo.UniformGraph(4), []int{0, 0, 0, 0}, false},
	} {
		if g, level := levelled(c.g, c.boxes); level != c.want || !level && g != c.g {
			t.Errorf("%s: level is %v, want %v", name, level, c.want)
		}
	}
	cfg := defaults()
	cfg.cores, cfg.boxes = 2, one
	p, err := newPlanner(uneven(3), 0, &cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.hosts.even {
		t.Error("the hosts are not alike")
	}
	if name, _ := p.choice(plan.Broadcast, 16<<20); name != "hosts-direct" {
		t.Errorf("Broadcast of 16 MiB is %s, want hosts-direct", name)
	}
}

// A message goes in one chunk where chunks cost more than they save, and in several
// where the network is slow.
func TestChunksByPrice(t *testing.T) {
	const bytes = 64 << 10
	cfg := defaults()
	cfg.cores, cfg.boxes = 2, []int{0, 0, 0, 0}
	for rate, want := range map[float64]int{6: 1, 500 * mbit: 4} {
		p, err := newPlanner(networkOf(4, 1, wires(rate), func(int) float64 { return 0 }), 0, &cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, chunks, err := p.priceShape(plan.Broadcast, 0, hostsTree, bytes, math.Inf(1))
		if err != nil {
			t.Fatal(err)
		}
		grain := min(chunks.Of(bytes, p.slotBytes), bytes)
		if got := bytes / grain; got != want {
			t.Errorf("%v GB/s: %d chunks of %d bytes, want %d", rate, got, grain, want)
		}
	}
}
