package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// manyGraphs returns machines, and even and uneven networks of one host and of several.
func manyGraphs() map[string]*topo.Graph {
	all := make(map[string]*topo.Graph)
	for _, name := range topo.Machines() {
		if g, _ := topo.Machine(name); g.Ranks <= 16 && name != "mi250" { // whose trees take seconds to find
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

// ran makes a call of every collective, of few bytes, on every rank of a communicator.
func ran(ctx context.Context, c *collective.Comm, bytes int64) error {
	n := int(bytes) / 4
	part := max(n/c.Size(), 1)
	x, parts := make([]float32, n), make([]float32, part*c.Size())
	own := parts[c.Rank()*part:][:part]
	for i := range x {
		x[i] = 1
	}
	err := errors.Join(collective.AllReduce(ctx, c, x, x, collective.Sum), collective.Broadcast(ctx, c, x, x, 0))
	if err == nil && x[n-1] != float32(c.Size()) {
		err = fmt.Errorf("AllReduce of %d bytes: %v", bytes, x[n-1])
	}
	return errors.Join(err, collective.Reduce(ctx, c, x, x, collective.Sum, 0), collective.Barrier(ctx, c),
		collective.AllGather(ctx, c, own, parts), collective.ReduceScatter(ctx, c, parts, own, collective.Sum),
		collective.Gather(ctx, c, own, parts, 0), collective.Scatter(ctx, c, parts, own, 0),
		collective.AllToAll(ctx, c, parts, parts))
}

// served returns the digests of the programs that a job over these links runs, for every collective and size. It runs
// those of up to ranBytes, on all ranks.
func served(t *testing.T, g *topo.Graph, sizes []int64) map[string]string {
	const ranBytes = 32 << 10
	list := make(map[string]string)
	var wg sync.WaitGroup
	for r, w := range collective.InProcess(g.Ranks) {
		wg.Go(func() {
			c, err := collective.New(t.Context(), w, collective.WithGraph(g))
			if err != nil {
				t.Errorf("%s, rank %d: %v", g.Name, r, err)
				return
			}
			for _, bytes := range sizes {
				if bytes <= ranBytes {
					if err := ran(t.Context(), c, bytes); err != nil {
						t.Errorf("%s, rank %d: %v", g.Name, r, err)
					}
				}
				for k := range plan.Kinds {
					if r > 0 {
						break
					}
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

// The plans that treerun plan and sim print are those that a job on the same graph runs, for every collective at five
// sizes. By default go test tries an eighth of the graphs of up to 12 ranks, and a third of the collectives on each
// (testutil.Thorough).
func TestPlanIsWhatAJobRuns(t *testing.T) {
	sizes := []int64{8, 512, 32 << 10, 2 << 20, 128 << 20}
	graphs := manyGraphs()
	maps.DeleteFunc(graphs, func(_ string, g *topo.Graph) bool { return !testutil.Thorough() && g.Ranks > 12 })
	if len(graphs) < 40 {
		t.Fatalf("%d graphs", len(graphs))
	}
	for turn, name := range slices.Sorted(maps.Keys(graphs)) {
		if turn%testutil.Count(8, 1) > 0 {
			continue
		}
		g := graphs[name]
		want := served(t, g, sizes)
		file := fileOf(t, g)
		for k := range plan.Kinds {
			if !testutil.Thorough() && (int(k)+turn)%3 > 0 {
				continue
			}
			rows := json.NewDecoder(strings.NewReader(run(t, simTo,
				fmt.Sprintf("--graph %s --collective %s -b 8 -e 128M -f 64 --format json", file, k))))
			for i := 0; ; i++ {
				var row simRow
				err := rows.Decode(&row)
				if err == io.EOF && (i == len(sizes) || k == plan.Barrier && i == 1) {
					break
				}
				if at := fmt.Sprint(k, sizes[min(i, 4)]); err != nil || row.Digest != want[at] || row.Bytes != sizes[i] &&
					k != plan.Barrier {
					t.Fatalf("%s: %v of %d bytes: sim has %s, the job %s, %v", name, k, row.Bytes, row.Digest, want[at], err)
				}
			}
		}
		k, bytes := plan.AllReduce+plan.Kind(turn%9), sizes[turn%5]
		p := readPlan(t, fmt.Sprintf("--graph %s --collective %s --bytes %d", file, k, bytes))
		if at := fmt.Sprint(k, bytes); p.Digest != want[at] {
			t.Errorf("%s: %v of %d bytes: plan has %s, the job %s", name, k, bytes, p.Digest, want[at])
		}
	}
}
