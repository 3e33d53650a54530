//go:build linux

package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Every shape that a collective has is measured at every size, with results
// that are right, and all ranks have the same times.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		np   int
		line string
	}{
		{2, "--explain 40K -i 20"},
		{3, "--explain 100 -i 1 -w 0 --collective gather,allreduce,alltoall"},
		{4, "--explain 4K --collective reduce,barrier -i 5"},
	} {
		o := parsed(t, c.line)
		cases := o.cases(c.np)
		var mu sync.Mutex
		seen := make([][]*Row, c.np)
		worlds(t, c.np, func(w *world) error {
			return explain(t.Context(), w, o, func(p *Row) error {
				mu.Lock()
				defer mu.Unlock()
				seen[w.rank] = append(seen[w.rank], p)
				return nil
			}, collective.WithTopoCache(""))
		})
		for r := range seen {
			if len(seen[r]) != len(cases) {
				t.Fatalf("%s: rank %d has %d points, want %d", c.line, r, len(seen[r]), len(cases))
			}
			for i, p := range seen[r] {
				checkPoint(t, c.line, &cases[i], p, seen[0][i], r)
			}
		}
	}
}

func checkPoint(t *testing.T, line string, k *Case, p, first *Row, rank int) {
	t.Helper()
	var kind plan.Kind
	if err := kind.UnmarshalText([]byte(k.Name)); err != nil {
		t.Fatal(err)
	}
	var names []string
	chosen := false
	for i, c := range p.Explained.Candidates {
		names = append(names, c.Plan)
		chosen = chosen || c.Plan == p.Plan
		if !(c.Us > 0) || c.Us != first.Explained.Candidates[i].Us {
			t.Errorf("%s: rank %d: %s took %v us, on rank 0 %v", line, rank, c.Plan, c.Us, first.Explained.Candidates[i].Us)
		}
		if known := c.PredictedUs != nil; known != (rank == 0) {
			t.Errorf("%s: rank %d: %s: a price is there: %v", line, rank, c.Plan, known)
		}
	}
	if !p.matches(k, p.NP) || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("%s: rank %d: shapes %v of %+v", line, rank, names, p)
	}
	// The measurements of the links decide whether a barrier has a choice.
	byThis := strings.HasPrefix(p.Explained.By, "price") || strings.HasPrefix(p.Explained.By, "rule")
	if rank == 0 && (!chosen || !byThis || p.Explained.Links == "") {
		t.Errorf("%s: rank %d: nothing is explained: %+v", line, rank, p)
	}
}

// The shapes for ranks on several hosts are explained as those of one host are.
func TestExplainHosts(t *testing.T) {
	const np = 4
	g := &topo.Graph{Name: "hosts", Ranks: np, Hosts: []int{0, 1, 2, 3}}
	for b := range np {
		for a := range b {
			g.Links = append(g.Links, topo.Link{A: a, B: b, Kind: topo.TCP, GBytesPerSecond: 1, LatencyUs: 20,
				Source: topo.Measured})
		}
	}
	o := parsed(t, "--explain 4K --collective allreduce,broadcast,barrier -i 5 --max-seconds 0.1")
	var seen []*Row
	worlds(t, np, func(w *world) error {
		return explain(t.Context(), w, o, func(p *Row) error {
			if w.rank == 0 {
				seen = append(seen, p)
			}
			return nil
		}, collective.WithTopoCache(""), collective.WithGraph(g))
	})
	if len(seen) != 3 {
		t.Fatalf("%d points, want 3", len(seen))
	}
	for i, want := range []string{"flat doubling direct", "star direct", "flat doubling star"} {
		var names []string
		chosen := false
		for _, c := range seen[i].Explained.Candidates {
			names = append(names, c.Plan)
			chosen = chosen || c.Plan == seen[i].Plan
			if !(c.Us > 0) || c.PredictedUs == nil {
				t.Errorf("%s in shape %s: %+v", seen[i].Collective, c.Plan, c)
			}
		}
		for w := range strings.FieldsSeq(want) {
			if !slices.Contains(names, w) || !chosen {
				t.Errorf("%s: plans %v, want %s among them; chosen %s", seen[i].Collective, names, w, seen[i].Plan)
			}
		}
	}
}

// No other communicator is open while --explain measures one: those of other plans are closed, as their links would
// take its time.
func TestExplainOneByOne(t *testing.T) {
	o := parsed(t, "--explain 4K --collective allreduce,reduce -i 3 --max-seconds 0.1")
	worlds(t, 3, func(w *world) error {
		var opened []*collective.Comm
		e := &explainer{o: o, np: 3, opts: []collective.Option{collective.WithTopoCache("")}}
		e.open = func(opts ...collective.Option) (*collective.Comm, error) {
			for i, c := range opened {
				if err := collective.Barrier(t.Context(), c); !errors.Is(err, collective.ErrClosed) {
					return nil, fmt.Errorf("communicator %d of %d is still open: %w", i, len(opened), err)
				}
			}
			c, err := collective.New(t.Context(), w, opts...)
			opened = append(opened, c)
			return c, err
		}
		points := 0
		if err := e.measureAll(t.Context(), func(*Row) error { points++; return nil }); err != nil {
			return err
		}
		if shapes := len(opened[0].Algorithms(plan.AllReduce)) + len(opened[0].Algorithms(plan.Reduce)); points != 2 ||
			len(opened) != 1+explainRounds*shapes {
			return fmt.Errorf("%d points and %d communicators, want 2 and one for each of %d shapes, %d times", points,
				len(opened), shapes, explainRounds)
		}
		return nil
	})
}

func TestExplainFlags(t *testing.T) {
	o := parsed(t, "--explain 64K")
	if cases := o.cases(2); len(cases) != 1 || cases[0].Bytes != 64<<10 || cases[0].InPlace || o.Iterations != 200 ||
		o.MaxSeconds != 1 {
		t.Errorf("--explain measures %+v, %+v", cases, *o)
	}
	if o = parsed(t, "--explain 1K -i 7 --max-seconds 3 --collective barrier"); o.Iterations != 7 || o.MaxSeconds != 3 ||
		len(o.cases(2)) != 1 {
		t.Errorf("the given options are %+v", *o)
	}
	where := func(f *pflag.FlagSet) { f.String("where", "", "") }
	if o, err := parse(strings.Fields("--explain 8 --where a,b"), where); err != nil || o.Explain != 8 {
		t.Errorf("--explain cannot be combined with a flag of the job: %v", err)
	}
	for line, want := range map[string]string{
		"--explain 8 --json x --stream":       "--explain cannot be combined with --json, --stream",
		"--explain 8 -e 16":                   "--explain cannot be combined with --end",
		"--explain 0":                         "want a size",
		"--explain 1K --collective all":       "--explain: sendrecv has no plan",
		"--explain 1K --collective scatter,x": `"x"`,
	} {
		if _, err := parse(strings.Fields(line)); cmdline.ExitCode(err) != cmdline.ExitUsage ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if err := parsed(t, "--explain 8").checkRanks(1); cmdline.ExitCode(err) != cmdline.ExitUsage {
		t.Errorf("one rank: %v", err)
	}
}
