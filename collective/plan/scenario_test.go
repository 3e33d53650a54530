package plan_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/tree"
)

var rewrite = flag.Bool("rewrite", false,
	"write what the scenario files should say; commit only a diff that you understand")

// TestScenarios runs the files of testdata. A file is prose: paragraphs of comments, a command with its input, a line
// of dashes, and the output.
//
//	graph uniform N            the complete graph of N equal ranks
//	graph                      the JSON form follows
//	tree BUILDER ROOT          a tree of the graph by exact, greedy, best or uniform
//	tree all                   one tree for every root
//	tree parents P0 P1 … / …   trees by hand
//	tree two-binary            NCCL's two complementary binary trees
//	plan KIND [split] [W …]    a plan from the trees, with weights
//	ring KIND R0 R1 …          a plan from a ring; its first rank is the root
//	flat KIND N                a flat exchange of N ranks
//	direct KIND N ROOT [split] a direct plan of N ranks
//	hosts KIND ROOT [split] R0,R1 R2,R3 …   a direct plan over hosts
//	steps KIND RANKS [ROOT]    a plan by hand: a track a line, as in a plan file;
//	                           a line "lane" or "lane PART" begins the next one
//	without T S                the plan, step S of track T of lane 0 left out
//	exchange T S               …, steps S and S+1 exchanged
//	shares COUNT QUANTUM       where the lanes begin in a message
//	verify SLOTS [R0,R1 …]     the result of Verify, or of VerifyStable
//	price BYTES [NAME=VALUE …] the price of the plan on the graph, on a machine
//	                           with slots, slot (bytes) and step (us)
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runFile(t, file) })
	}
}

func runFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s scenario
	var out []string
	for _, block := range strings.Split(strings.TrimRight(string(text), "\n"), "\n\n") {
		head, want, ok := strings.Cut(block+"\n", "\n----\n")
		if !ok {
			out = append(out, block) // a comment on its own
			continue
		}
		var lines []string
		for _, line := range strings.Split(head, "\n") {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		got := s.run(strings.Fields(lines[0]), strings.Join(lines[1:], "\n"))
		got = strings.TrimRight(got, "\n") + "\n"
		if got != want && !*rewrite {
			t.Errorf("%s: %s\ngot\n%swant\n%s", file, lines[0], got, want)
		}
		out = append(out, head+"\n----\n"+strings.TrimRight(got, "\n"))
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// scenario holds the results of the commands of one file so far.
type scenario struct {
	graph *topo.Graph
	trees []topo.Tree
	plan  *plan.Plan
}

// run runs one command and returns its output.
func (s *scenario) run(words []string, input string) string {
	var text string
	var err error
	switch words[0] {
	case "graph":
		text, err = s.runGraph(words[1:], input)
	case "tree":
		text, err = s.runTree(words[1:])
	case "plan":
		text, err = s.runPlan(words[1:])
	case "ring":
		text, err = s.runRing(words[1:])
	case "flat", "direct":
		text, err = s.runDirect(words)
	case "hosts":
		text, err = s.runHosts(words[1:])
	case "steps":
		text, err = s.runSteps(words[1:], input)
	case "without", "exchange":
		text = s.damage(words[0], numbers(words[1:]))
	case "shares":
		text = s.shares(numbers(words[1:]))
	case "price":
		text, err = s.price(words[1:])
	case "verify":
		slots := numbers(words[1:2])[0]
		if len(words) > 2 {
			err = plan.VerifyStable(s.plan, hostsOf(words[2:]), slots)
		} else {
			err = plan.Verify(s.plan, slots)
		}
		if err == nil {
			text = "ok"
		}
	default:
		err = fmt.Errorf("unknown command %q", words[0])
	}
	if err != nil {
		return err.Error()
	}
	return text
}

func (s *scenario) runGraph(words []string, input string) (string, error) {
	g, err := topo.ParseGraph([]byte(input))
	if len(words) > 0 {
		g, err = topo.UniformGraph(numbers(words[1:])[0]), nil
	}
	if err != nil {
		return "", err
	}
	s.graph = g
	return g.String(), nil
}

func (s *scenario) runTree(words []string) (string, error) {
	if words[0] == "parents" {
		s.trees = nil
		text := ""
		for _, tree := range strings.Split(strings.Join(words[1:], " "), "/") {
			parents := numbers(strings.Fields(tree))
			t := topo.Tree{Root: slices.Index(parents, -1), Parent: parents}
			s.trees = append(s.trees, t)
			text += drawn(t) + s.weight(t)
		}
		return text, nil
	}
	var t topo.Tree
	var err error
	rest := numbers(words[1:])
	switch words[0] {
	case "exact":
		if s.trees, err = tree.Exact(s.graph); err == nil {
			t = s.trees[rest[0]]
		}
	case "uniform":
		t = tree.Uniform(s.graph.Ranks, rest[0])
	case "all", "two-binary":
		if words[0] == "all" {
			s.trees = tree.All(s.graph)
		} else {
			s.trees = tree.DoubleBinary(s.graph.Ranks)
		}
		text := ""
		for _, t := range s.trees {
			text += drawn(t)
		}
		return text, err
	}
	s.trees = []topo.Tree{t}
	if err != nil {
		return "", err
	}
	return drawn(t) + s.weight(t), nil
}

// drawn is a tree as text.
func drawn(t topo.Tree) string {
	if err := t.Validate(len(t.Parent)); err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	t.Draw(&b, func(int) string { return "" })
	return b.String()
}

func (s *scenario) weight(t topo.Tree) string {
	if s.graph == nil {
		return ""
	}
	weight := 0.0
	for v, p := range t.Parent {
		if p >= 0 {
			weight += s.graph.Rates().At(v, p)
		}
	}
	return fmt.Sprintf("weight %g\n", weight)
}

func (s *scenario) runPlan(words []string) (string, error) {
	var kind plan.Kind
	if err := kind.UnmarshalText([]byte(words[0])); err != nil {
		return "", err
	}
	form := plan.Single
	words = words[1:]
	if len(words) > 0 && words[0] == "split" {
		form = plan.Split
		words = words[1:]
	}
	var weights []float64
	for _, w := range numbers(words) {
		weights = append(weights, float64(w))
	}
	var err error
	if s.plan, err = plan.FromTrees(kind, s.trees, weights, form); err != nil {
		return "", err
	}
	return s.plan.String(), nil
}

func (s *scenario) runRing(words []string) (string, error) {
	var kind plan.Kind
	if err := kind.UnmarshalText([]byte(words[0])); err != nil {
		return "", err
	}
	ring := numbers(words[1:])
	var err error
	if s.plan, err = plan.FromRings(kind, [][]int{ring}, nil, ring[0]); err != nil {
		return "", err
	}
	return s.plan.String(), nil
}

func (s *scenario) runDirect(words []string) (string, error) {
	var kind plan.Kind
	err := kind.UnmarshalText([]byte(words[1]))
	if err != nil {
		return "", err
	}
	form := plan.Single
	if len(words) > 4 && words[4] == "split" {
		form = plan.Split
		words = words[:4]
	}
	n := numbers(words[2:])
	if words[0] == "flat" {
		s.plan, err = plan.Leaders(kind, plan.Alone(n[0]), plan.Everybody)
	} else {
		s.plan, err = plan.Direct(kind, n[0], n[1], form)
	}
	if err != nil {
		return "", err
	}
	return s.plan.String(), nil
}

func (s *scenario) runSteps(words []string, input string) (string, error) {
	type lane struct {
		Part   int      `json:"part"`
		Weight int      `json:"weight"`
		Tracks []string `json:"tracks"`
	}
	n := numbers(words[1:])
	steps := map[string]any{"ranks": n[0]}
	if len(n) > 1 {
		steps["root"] = n[1]
	}
	lanes := []lane{{Weight: 1}}
	for i, line := range strings.Split(input, "\n") {
		last := &lanes[len(lanes)-1]
		part, next := strings.CutPrefix(line, "lane")
		switch {
		case next && i > 0:
			lanes = append(lanes, lane{Weight: 1})
			last = &lanes[len(lanes)-1]
			fallthrough
		case next:
			last.Part, _ = strconv.Atoi(strings.TrimSpace(part))
		default:
			last.Tracks = append(last.Tracks, line)
		}
	}
	steps["lanes"] = lanes
	data, err := json.Marshal(map[string]any{"algorithm": "by hand", "collective": words[0], "steps": steps})
	if err != nil {
		return "", err
	}
	if _, s.plan, err = plan.ParseFile(data); err != nil {
		return "", err
	}
	return "ok", nil
}

func (s *scenario) runHosts(words []string) (string, error) {
	var kind plan.Kind
	err := kind.UnmarshalText([]byte(words[0]))
	if err != nil {
		return "", err
	}
	form := plan.Single
	root, hosts := numbers(words[1:2])[0], words[2:]
	if hosts[0] == "split" {
		form, hosts = plan.Split, hosts[1:]
	}
	if s.plan, err = plan.DirectHosts(kind, hostsOf(hosts), root, form); err != nil {
		return "", err
	}
	return s.plan.String(), nil
}

// hostsOf reads ranks of hosts, as in "0,1".
func hostsOf(words []string) [][]int {
	var hosts [][]int
	for _, w := range words {
		hosts = append(hosts, numbers(strings.Split(w, ",")))
	}
	return hosts
}

func (s *scenario) damage(how string, at []int) string {
	track := &s.plan.Lanes[0].Tracks[at[0]]
	steps := slices.Clone(track.Steps)
	if how == "without" {
		steps = slices.Delete(steps, at[1], at[1]+1)
	} else {
		steps[at[1]], steps[at[1]+1] = steps[at[1]+1], steps[at[1]]
	}
	track.Steps = steps
	return s.plan.String()
}

func (s *scenario) shares(n []int) string {
	var b strings.Builder
	cuts := s.plan.Cuts()
	for i := range s.plan.Lanes {
		fmt.Fprintf(&b, "lane %d: %d..%d\n", i, plan.CutAt(int64(n[0]), cuts[i], int64(n[1])),
			plan.CutAt(int64(n[0]), cuts[i+1], int64(n[1])))
	}
	return b.String()
}

func (s *scenario) price(words []string) (string, error) {
	m := sim.Machine{SlotBytes: 1 << 30, MinChunk: 1 << 30}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		v := numbers([]string{value})[0]
		switch name {
		case "slots":
			m.Slots = v
		case "slot":
			m.SlotBytes, m.MinChunk = v, v
		case "step":
			m.StepUs = float64(v)
		default:
			return "", fmt.Errorf("unknown constant %q", name)
		}
	}
	x := sim.NewPricer(s.graph, topo.NewWays(s.graph), m)
	bytes := numbers(words[:1])[0]
	us, err := x.Us(s.plan, int64(bytes), 1, plan.Chunks{}, sim.Limits{Steps: 1 << 30})
	return fmt.Sprintf("%.6g us for %d bytes, %.4g GB/s\n", us, bytes, float64(bytes)/us/1e3), err
}

func numbers(words []string) []int {
	var out []int
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		out = append(out, n)
	}
	return out
}
