package collective

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// TestNewMeasuresOnce: the first communicator on a host measures its links and keeps the graph, the next one uses it,
// and a broken file is replaced by a new measurement.
func TestNewMeasuresOnce(t *testing.T) {
	dir := t.TempDir()
	graphs := func() *topo.Graph {
		var mu sync.Mutex
		var first *topo.Graph
		job := newFakeJob(3)
		for r, err := range job.run(t, func(w *fakeWorld) error {
			c, err := New(t.Context(), w, overMem, WithTopoCache(dir))
			if err != nil {
				return err
			}
			mu.Lock()
			if first == nil {
				first = c.Graph()
			} else if first.Digest() != c.Graph().Digest() {
				t.Errorf("rank %d has another graph", c.Rank())
			}
			mu.Unlock()
			return errors.Join(Barrier(t.Context(), c), c.Close())
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
		return first
	}
	files := func() []string {
		names, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(names) != 1 {
			t.Fatalf("cache holds %v, %v; want one graph", names, err)
		}
		return names
	}
	graphs()
	keepCredible(t, files()[0])
	measured := graphs()
	before, err := os.Stat(files()[0])
	if err != nil {
		t.Fatal(err)
	}
	if again := graphs(); again.Digest() != measured.Digest() {
		t.Error("the second communicator did not take the first one's graph")
	}
	after, err := os.Stat(files()[0])
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the kept graph was written again: %v", err)
	}
	if err := os.WriteFile(files()[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g := graphs(); g.Ranks != 3 || len(g.Links) != 3 {
		t.Errorf("after a broken file: %v", g)
	}
}

// keepCredible puts credible figures into a file of the cache: those that a busy machine gave would be measured again.
func keepCredible(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	var f probe.Findings
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	for i := range f.Pairs {
		f.Pairs[i].GBytesPerSecond, f.Pairs[i].LatencyUs = 12, 1
	}
	if err == nil {
		err = probe.Cache{Dir: filepath.Dir(file)}.Store(file, &f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBusyMeasurement: a graph that a job measured on a machine that was too busy is measured again by the next one.
func TestBusyMeasurement(t *testing.T) {
	dir, job := t.TempDir(), newFakeJob(3)
	measure := func() (file string, g *topo.Graph) {
		for r, err := range job.run(t, func(w *fakeWorld) error {
			c, err := New(t.Context(), w, overMem, WithTopoCache(dir))
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				g = c.Graph()
			}
			return c.Close()
		}) {
			if err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
		names, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(names) != 1 {
			t.Fatalf("the cache holds %v, %v; want one graph", names, err)
		}
		return names[0], g
	}
	file, _ := measure()
	nonsense := &probe.Findings{Places: make([]probe.Place, 3), Pairs: []probe.Pair{{B: 1, LatencyUs: 7000,
		GBytesPerSecond: 0.014}}}
	if err := (probe.Cache{Dir: dir}).Store(file, nonsense); err != nil {
		t.Fatal(err)
	}
	job = newFakeJob(3)
	_, g := measure()
	for _, l := range g.Links {
		if l.GBytesPerSecond == 0.014 || l.LatencyUs == 7000 {
			t.Errorf("a link of the second job has the figures of the first: %+v", l)
		}
	}
	if f, err := (probe.Cache{Dir: dir}).Load(file, 3); err != nil || len(f.Pairs) != 3 {
		t.Errorf("the file of the second job: %+v, %v; want the 3 pairs that it measured", f, err)
	}
}

// TestNoTopoCache: with the launcher's --no-topo-cache the cache is neither read nor written.
func TestNoTopoCache(t *testing.T) {
	dir := t.TempDir()
	job := newFakeJob(2)
	for _, err := range job.run(t, func(w *fakeWorld) error {
		w.Settings = map[string]string{"no-topo-cache": "1"}
		c, err := New(t.Context(), w, overMem, WithTopoCache(dir))
		if err != nil {
			return err
		}
		return c.Close()
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the cache holds %v, %v; want nothing", entries, err)
	}
}

// TestNewGathers counts the gathers of New on the ranks of a host, or of several hosts whose graph is not known, and
// then known. Three more measure the whole network, where other work of the machine has slowed down the sample of it.
// There are more where such work makes the links within a host doubtful: that is tried again.
func TestNewGathers(t *testing.T) {
	for _, c := range []struct{ hosts, cold, warm int }{{1, 5, 3}, {3, 7, 4}} {
		dir, got := "", 0
		for try := 0; got != c.cold && (c.hosts == 1 || got != c.cold+3); try++ {
			if try == 8 {
				t.Fatalf("%d hosts: a rank took part in %d AllGathers, want %d", c.hosts, got, c.cold)
			}
			dir = t.TempDir()
			got = gathersOfNew(t, c.hosts, dir)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*-n[23].json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%d hosts: the cache holds %v, %v; want the links of one host", c.hosts, files, err)
		}
		keepCredible(t, files[0])
		if got := gathersOfNew(t, c.hosts, dir); got != c.warm {
			t.Errorf("%d hosts: a rank took part in %d AllGathers with a known graph, want %d", c.hosts, got, c.warm)
		}
	}
}

// gathersOfNew returns the number of AllGathers of a New of some ranks, which keep their graphs in dir.
func gathersOfNew(t *testing.T, hosts int, dir string) int {
	var made [4]int // by rank
	count := func(w interface {
		World
		Round() int
	}) error {
		before := w.Round()
		c, err := New(t.Context(), w, WithTopoCache(dir))
		if err != nil {
			return err
		}
		made[w.Rank()] = w.Round() - before
		return c.Close()
	}
	var errs []error
	if hosts > 1 {
		errs = testutil.NewJob(0, 1, 1, 2).Run(t, func(w *testutil.World) error {
			return count(&testutil.Hosted{World: w})
		})
	} else {
		errs = newFakeJob(3).run(t, func(w *fakeWorld) error { return count(w) })
	}
	for r, err := range errs {
		if err != nil || made[r] != made[0] {
			t.Fatalf("rank %d took part in %d AllGathers, rank 0 in %d: %v", r, made[r], made[0], err)
		}
	}
	return made[0]
}

// TestRankWithoutPlans: a rank cannot plan, and no comparison of settings shows it. All ranks report it, and none
// waits.
func TestRankWithoutPlans(t *testing.T) {
	file, made, _ := planFile(t, topo.UniformGraph(3), "star", plan.AllReduce, -1)
	for _, bad := range []int{0, 2} {
		for _, hosts := range [][]int{{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 1, 2, 2}} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for r, err := range testutil.NewJob(hosts...).Run(t, func(w *testutil.World) error {
					_, err := New(t.Context(), &testutil.Hosted{World: w}, WithGraph(testutil.GraphOn(hosts)), func(c *setup.Config) {
						if w.Rank() == bad {
							c.Planning.Given, _ = planner.NewGiven(file, made)
						}
					})
					return err
				}) {
					text := fmt.Sprint(err)
					if !strings.HasSuffix(text, "the given plan is for 3 ranks, the graph has 4") ||
						r != bad && !strings.Contains(text, fmt.Sprintf(": rank %d: ", bad)) {
						t.Errorf("rank %d on %v: %v, want why rank %d has no plans", r, hosts, err, bad)
					}
				}
			})
		}
	}
}
