package planner

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// manyGraphs are machines, even and uneven networks of one host and of several.
func manyGraphs() map[string]*topo.Graph {
	all := make(map[string]*topo.Graph)
	for _, name := range machines.Names() {
		if g, _ := machines.Get(name); g.Ranks <= 16 && name != "mi250" { // whose trees take seconds to find
			all[name] = g
		}
	}
	for n := 1; n <= 16; n++ {
		all[fmt.Sprintf("uniform %d", n)] = topo.UniformGraph(n)
	}
	for _, sizes := range [][]int{{1, 1}, {1, 1, 1, 1}, {2, 2}, {4, 4}, {2, 2, 2}, {3, 1, 4}, {1, 5}} {
		all[fmt.Sprint(sizes)] = hostsGraph(sizes)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := 3; n <= 8; n++ {
		g := joined(n, true)
		for i := range g.Links {
			g.Links[i].GBytesPerSecond, g.Links[i].LatencyUs = 1+9*r.Float64(), 0.5+r.Float64()
		}
		r.Shuffle(len(g.Links), func(i, k int) { g.Links[i], g.Links[k] = g.Links[k], g.Links[i] })
		all[fmt.Sprintf("random %d", n)] = g
		sockets := joined(n, true)
		for i, l := range sockets.Links {
			sockets.Links[i].GBytesPerSecond = 10
			if (l.A < n/2) != (l.B < n/2) {
				sockets.Links[i].GBytesPerSecond = 3
			}
		}
		all[fmt.Sprintf("sockets %d", n)] = sockets
		if n%2 == 0 {
			all[fmt.Sprintf("path %d", n)] = joined(n, false)
		}
	}
	return all
}

// served is what a communicator over these links runs for every collective and size.
func served(t *testing.T, g *topo.Graph, sizes []int64) map[string]string {
	list := make(map[string]string)
	var wg sync.WaitGroup
	for r, w := range collective.InProcess(g.Ranks) {
		wg.Go(func() {
			c, err := collective.New(t.Context(), w, collective.WithGraph(g))
			if err != nil {
				t.Errorf("%s, rank %d: %v", g.Name, r, err)
				return
			}
			x := []float32{1, 2, 3, 4}
			if err := collective.AllReduce(t.Context(), c, x, x, collective.Sum); err != nil || x[3] != float32(4*g.Ranks) {
				t.Errorf("%s, rank %d: %v, %v", g.Name, r, x, err)
			}
			for k := plan.AllReduce; r == 0 && k <= plan.AllToAll; k++ {
				for _, bytes := range sizes {
					choice, err := c.Choice(k, 0, int(bytes))
					if err != nil {
						t.Errorf("%v on %s: %v", k, g.Name, err)
					}
					list[fmt.Sprint(k, bytes)] = choice.Digest
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return list
}

// planned is the same by the Planner of a job on this host.
func planned(t *testing.T, g *topo.Graph, sizes []int64) map[string]string {
	list := make(map[string]string)
	p, err := planner.New(g, planner.Machine{Cores: cmdline.UsableCores()}, planner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for k := plan.AllReduce; k <= plan.AllToAll; k++ {
		for _, bytes := range sizes {
			c, err := p.Choose(k, 0, bytes)
			if err != nil {
				t.Fatal(err)
			}
			list[fmt.Sprint(k, bytes)] = c.Plan.Digest()
		}
	}
	return list
}

// What treerun plan and sim print is what a job on the same graph runs, at five sizes: for
// every collective up to eight ranks, and three of them above.
func TestPlanIsWhatAJobRuns(t *testing.T) {
	sizes := []int64{8, 512, 32 << 10, 2 << 20, 128 << 20}
	graphs := manyGraphs()
	if len(graphs) < 40 {
		t.Fatalf("%d graphs", len(graphs))
	}
	turn := 0
	for _, name := range slices.Sorted(maps.Keys(graphs)) {
		g, of := graphs[name], planned
		if g.Ranks <= 8 {
			of = served
		}
		want := of(t, g, sizes)
		file := fileOf(t, g)
		for k := plan.AllReduce; k <= plan.AllToAll; k++ {
			if g.Ranks > 8 && k != plan.AllReduce && k != plan.Broadcast && k != plan.AllGather {
				continue
			}
			rows := json.NewDecoder(strings.NewReader(run(t, simTo, fmt.Sprintf("--graph %s --collective %s -b 8 -e 128M -f 64 --format json", file, k))))
			for i := 0; ; i++ {
				var row simRow
				err := rows.Decode(&row)
				if err == io.EOF && (i == len(sizes) || k == plan.Barrier && i == 1) {
					break
				}
				if at := fmt.Sprint(k, sizes[min(i, 4)]); err != nil || row.Digest != want[at] || row.Bytes != sizes[i] && k != plan.Barrier {
					t.Fatalf("%s: %v of %d bytes: sim has %s, the job %s, %v", name, k, row.Bytes, row.Digest, want[at], err)
				}
			}
		}
		k, bytes := plan.AllReduce+plan.Kind(turn%9), sizes[turn%5]
		p := readPlan(t, fmt.Sprintf("--graph %s --collective %s --bytes %d", file, k, bytes))
		if at := fmt.Sprint(k, bytes); p.Digest != want[at] {
			t.Errorf("%s: %v of %d bytes: plan has %s, the job %s", name, k, bytes, p.Digest, want[at])
		}
		turn++
	}
}
