package collective

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
)

// planFile returns a plan as read from its file.
func planFile(t testing.TB, g *topo.Graph, algorithm string, kind plan.Kind, root int) (*plan.File, *plan.Plan,
	string) {
	t.Helper()
	p, err := planner.New(g, planner.Machine{}, planner.Options{Algorithm: algorithm})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Choose(kind, root, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	f := c.File()
	f.Bound, f.ChunkBytes = 1, 4096
	data, err := f.Append(nil, c.Chosen.Plan)
	if err != nil {
		t.Fatal(err)
	}
	return f, c.Chosen.Plan, string(data)
}

// runs makes a call of each kind, and reports an error if it does not run by the algorithm, or the plan digest, in
// want.
func runs(t *testing.T, c *Comm, want map[plan.Kind]string) error {
	for _, kind := range kinds {
		name, asked := want[kind]
		if !asked {
			continue
		}
		cl := call{kind: kind, count: 1000}
		if reduces(kind) {
			cl.op = Sum
		}
		if kind == plan.Barrier {
			cl.count = 0
		}
		tr := float32s.try(c, cl)
		if err := tr.run(t.Context()); err != nil {
			return err
		}
		if err := tr.check(); err != nil {
			return err
		}
		if got, err := c.Choice(kind, 0, 4096); err != nil || got.Name != name && got.Digest != name {
			return fmt.Errorf("%v runs by %s %s, want %s: %v", kind, got.Name, got.Digest, name, err)
		}
	}
	return nil
}

// Calls run by the algorithm that the options of New, or else the settings of a job, select. Collectives that the
// algorithm does not support are planned as usual.
func TestWithAlgorithm(t *testing.T) {
	g := sockets(4)
	graphText, err := g.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, graphText, 0o600); err != nil {
		t.Fatal(err)
	}
	f, p, planText := planFile(t, g, "chain", plan.AllReduce, -1)
	chain, usual := f.Digest, chosen(t, g, plan.AllToAll)
	for name, c := range map[string]struct {
		opts     []Option
		settings map[string]string
		want     map[plan.Kind]string
	}{
		"options": {[]Option{WithGraph(g), WithAlgorithm("kl:one", Planning{Seed: 3})}, nil,
			map[plan.Kind]string{plan.AllReduce: "kl:one", plan.Reduce: "kl:one", plan.AllToAll: usual}},
		"a variant": {[]Option{WithGraph(g), WithAlgorithm("packing:all")}, nil,
			map[plan.Kind]string{plan.AllReduce: "packing:all"}},
		"options alone": {[]Option{WithGraph(g), WithAlgorithm("", Planning{MaxTrees: 2})}, nil,
			map[plan.Kind]string{plan.AllReduce: "packing:all", plan.AllToAll: usual}},
		"a plan": {[]Option{WithGraph(g), WithPlan(f, p)}, nil,
			map[plan.Kind]string{plan.AllReduce: chain, plan.AllToAll: usual}},
		"settings": {nil, map[string]string{"graph": string(graphText), "algorithm": "kl:one,seed=3"},
			map[plan.Kind]string{plan.AllReduce: "kl:one", plan.AllToAll: usual}},
		"a graph in a file, and a plan": {nil, map[string]string{"graph": file, "plan": planText},
			map[plan.Kind]string{plan.AllReduce: chain, plan.Barrier: chosen(t, g, plan.Barrier)}},
		"options before settings": {[]Option{WithGraph(g), WithAlgorithm("ring:all"), WithPlan(f, p)},
			map[string]string{"graph": "dgx1v", "algorithm": "nonsense", "plan": "{}"},
			map[plan.Kind]string{plan.AllReduce: chain, plan.AllGather: "ring:all"}},
	} {
		for r, err := range runWith(t, 4, []map[string]string{c.settings}, c.opts,
			func(c2 *Comm) error { return runs(t, c2, c.want) }) {
			if err != nil {
				t.Errorf("%s: rank %d: %v", name, r, err)
			}
		}
	}
	dgx, _ := topo.Machine("dgx1v")
	for r, err := range runWith(t, 8, []map[string]string{{"graph": "dgx1v"}}, nil, func(c *Comm) error {
		if c.in.Setup.Plans.Graph().Digest() != dgx.Digest() {
			return errors.New("another graph")
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("a machine: rank %d: %v", r, err)
		}
	}
}

// A wrong setting or option fails on all ranks, even if it is wrong on only one of them, with the element, the reason
// and the number of that rank. Settings that differ fail as well.
func TestPlanningRefused(t *testing.T) {
	g := sockets(4)
	_, _, planText := planFile(t, g, "chain", plan.AllReduce, -1)
	_, _, ofThree := planFile(t, topo.UniformGraph(3), "ring:all", plan.AllReduce, -1)
	graphText, err := g.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	f, p, _ := planFile(t, g, "star", plan.Reduce, 3)
	dead := *p
	dead.Lanes = slices.Clone(p.Lanes)
	dead.Lanes[0].Tracks = dead.Lanes[0].Tracks[1:] // rank 0 sends nothing
	for _, c := range []struct {
		setting, text, want string
	}{
		{"graph", "dgx99", "graph: open dgx99: no such file"},
		{"graph", `{"name":"x"}`, "graph: "},
		{"graph", strings.Replace(string(graphText), `"gbytes_per_second":10`, `"gbytes_per_second":0`, 1),
			"links[0] (0-1): gbytes_per_second is 0"},
		{"algorithm", "best", `unknown algorithm "best"`},
		{"algorithm", "ring,max-trees=2", "option max-trees means nothing to algorithm ring"},
		{"algorithm", "packing,max-trees=0", `option max-trees="0"`},
		{"plan", ofThree, "the plan is for 3 ranks, the communicator has 4"},
		{"plan", strings.Replace(planText, `"allreduce"`, `"reduce"`, 1), "plan: "},
		{"plan", strings.Replace(planText, `"chunk_bytes":4096`, `"chunk_bytes":65`, 1),
			"chunk_bytes: chunks of 65 bytes, want a multiple of 64"},
		{"plan", strings.Replace(planText, `"parent":[-1,0,1,2]`, `"parent":[-1,0,1,1]`, 1),
			"trees: the steps are not those"},
		{"plan", "/no/such/plan.json", "plan: open /no/such/plan.json: no such file"},
	} {
		bad := map[string]string{c.setting: c.text}
		for r, err := range runWith(t, 4, []map[string]string{bad}, nil, nothing) {
			if !errors.Is(err, ErrArgument) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s on all: rank %d: %v, want %q", c.setting, r, err, c.want)
			}
		}
		for r, err := range runWith(t, 4, []map[string]string{nil, nil, bad, nil}, nil, nothing) {
			if !errors.Is(err, ErrArgument) || !strings.Contains(fmt.Sprint(err), c.want) ||
				!strings.Contains(fmt.Sprint(err), "rank 2: ") {
				t.Errorf("%s on rank 2: rank %d: %v, want %q", c.setting, r, err, c.want)
			}
		}
	}
	inOthers := strings.Replace(planText, `"chunk_bytes":4096`, `"chunk_bytes":8192`, 1)
	for r, err := range runWith(t, 4, []map[string]string{{"plan": planText}, {"plan": inOthers}, {"plan": planText},
		{"plan": planText}}, nil, nothing) {
		if !errors.Is(err, ErrDisagree) || !strings.Contains(fmt.Sprint(err),
			"in chunks of 8192 bytes on rank 1") {
			t.Errorf("chunk_bytes differs on rank 1: rank %d: %v", r, err)
		}
	}
	for name, opt := range map[string]Option{"no file": WithPlan(nil, p), "no plan": WithPlan(f, nil)} {
		for r, err := range runWith(t, 4, []map[string]string{nil}, []Option{opt}, nothing) {
			if !errors.Is(err, ErrArgument) || !strings.Contains(fmt.Sprint(err), "WithPlan has a ") {
				t.Errorf("%s: rank %d: %v", name, r, err)
			}
		}
	}
	for setting, text := range map[string]string{"graph": string(graphText), "algorithm": "ring", "plan": planText} {
		for r, err := range runWith(t, 4, []map[string]string{nil, {setting: text}, nil, nil}, nil, nothing) {
			if !errors.Is(err, ErrDisagree) || !strings.Contains(fmt.Sprint(err), "on rank 1;") &&
				!strings.HasSuffix(fmt.Sprint(err), "on rank 1") {
				t.Errorf("%s differs on rank 1: rank %d: %v", setting, r, err)
			}
		}
	}
	refusedEverywhere(t, "a plan that never ends", WithPlan(f, &dead), "the plan: ", "rank 3")
	refusedEverywhere(t, "a graph of 5 ranks", WithGraph(topo.UniformGraph(5)), "5 ranks")
}

// refusedEverywhere checks that New of four ranks fails on all of them with these words.
func refusedEverywhere(t *testing.T, what string, o Option, words ...string) {
	t.Helper()
	for r, err := range runWith(t, 4, []map[string]string{nil}, []Option{o}, func(*Comm) error { return nil }) {
		for _, w := range words {
			if !errors.Is(err, ErrArgument) || !strings.Contains(fmt.Sprint(err), w) {
				t.Errorf("%s: rank %d: %v", what, r, err)
			}
		}
	}
}

// A plan that was inspected and never ran has served no call; a plan over links that the graph does not have has no
// price, but a digest.
func TestGivenPlanUsed(t *testing.T) {
	f, p, _ := planFile(t, topo.UniformGraph(3), "star", plan.AllReduce, -1)
	line := &topo.Graph{Ranks: 3, Links: []topo.Link{{A: 0, B: 1, GBytesPerSecond: 1}, {A: 1, B: 2, GBytesPerSecond: 1}}}
	for r, err := range runWith(t, 3, []map[string]string{nil}, []Option{WithGraph(line), WithPlan(f, p)},
		func(c *Comm) error {
			choice, err := c.Choice(plan.AllReduce, -1, 1000)
			if err != nil || choice.Digest != f.Digest || choice.By != "a plan file" {
				return fmt.Errorf("choice %+v, %v", choice, err)
			}
			if c.UnusedPlan() == "" {
				return errors.New("a plan that was looked at has served a call")
			}
			err = AllReduce(t.Context(), c, []int32{1}, make([]int32, 1), Sum)
			if text := c.UnusedPlan(); text != "" && err == nil {
				err = errors.New(text)
			}
			return err
		}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func nothing(*Comm) error { return nil }

// runWith is runRanks with settings, by rank where there are several.
func runWith(t *testing.T, size int, settings []map[string]string, opts []Option, body func(c *Comm) error) []error {
	t.Helper()
	return newFakeJob(size).run(t, func(w *fakeWorld) error {
		w.Settings = settings[w.Rank()%len(settings)]
		c, err := New(t.Context(), w, append([]Option{overMem, WithTopoCache("")}, opts...)...)
		if err != nil {
			return err
		}
		return errors.Join(body(c), c.Close())
	})
}

// chosen returns the digest of the plan of a kind without any options.
func chosen(t *testing.T, g *topo.Graph, kind plan.Kind) (digest string) {
	t.Helper()
	mustRun(t, g.Ranks, func(w *fakeWorld, c *Comm) error {
		choice, err := c.Choice(kind, 0, 4096)
		if w.Rank() == 0 {
			digest = choice.Digest
		}
		return err
	}, WithGraph(g))
	return digest
}

// sockets returns a graph of ranks on two sockets.
func sockets(ranks int) *topo.Graph {
	g := topo.UniformGraph(ranks)
	for i := range g.Links {
		l := &g.Links[i]
		l.GBytesPerSecond, l.LatencyUs = 10, 0.5
		if (l.A < ranks/2) != (l.B < ranks/2) {
			l.GBytesPerSecond = 3
		}
	}
	return g
}
