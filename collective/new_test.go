package collective

import (
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
// then known.
func TestNewGathers(t *testing.T) {
	for _, c := range []struct{ hosts, cold, warm int }{{1, 5, 3}, {3, 7, 4}} {
		dir := t.TempDir()
		for _, want := range []int{c.cold, c.warm} {
			count := func(w interface {
				World
				Round() int
			}) error {
				before := w.Round()
				c, err := New(t.Context(), w, WithTopoCache(dir))
				if err != nil {
					return err
				}
				if got := w.Round() - before; got != want {
					t.Errorf("rank %d took part in %d AllGathers, want %d", w.Rank(), got, want)
				}
				return c.Close()
			}
			var errs []error
			if c.hosts > 1 {
				errs = testutil.NewJob(0, 1, 1, 2).Run(t, func(w *testutil.World) error {
					return count(&testutil.Hosted{World: w})
				})
			} else {
				errs = newFakeJob(3).run(t, func(w *fakeWorld) error { return count(w) })
			}
			for r, err := range errs {
				if err != nil {
					t.Fatalf("rank %d: %v", r, err)
				}
			}
		}
	}
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
