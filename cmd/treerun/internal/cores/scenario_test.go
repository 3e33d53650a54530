package cores

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/treerun/treerun/internal/cpu"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

var rewrite = flag.Bool("rewrite", false, "write the output of the scenarios into testdata")

// TestScenarios runs the commands in testdata/*.txt: blocks of commands, the line "----", and their output.
//
//	machine SOCKETS NODES CACHES CORES THREADS [adjacent] [offline=LIST] [without=FILE]
//	   NODES are those of a socket, CACHES those of a node, CORES those of a cache; the kernel numbers the first threads
//	   of all cores before the second ones, or adjacent. Without FILE: node, cache, core_siblings or thread_siblings.
//	plan RANKS [allowed=LIST] [of=FIRST/TOTAL] [usable=N] [map-by=N] [per-rank=N] [bind=N] [over] [gpus=LIST/LIST...]
//	slots [allowed=LIST] [over] SLOTS...  with a rank for each of SLOTS
func TestScenarios(t *testing.T) {
	var m *Machine
	testutil.Scenarios(t, *rewrite, func(input string) string {
		for line := range strings.Lines(input) {
			if words := strings.Fields(line); words[0] == "machine" {
				m = machine(t, words[1:])
			}
		}
		return scenario(t, m, input)
	})
}

// machine returns a machine with the files that the kernel would have.
func machine(t testing.TB, words []string) *Machine {
	t.Helper()
	var dims []int
	for _, w := range words[:5] {
		dims = append(dims, number(t, w))
	}
	cores := dims[0] * dims[1] * dims[2] * dims[3]
	threads := cores * dims[4]
	var offline []int
	without := "-"
	for _, w := range words[5:] {
		if list, ok := strings.CutPrefix(w, "offline="); ok {
			offline = listOf(t, list)
		}
		without = strings.TrimPrefix(w, "without=")
	}
	coreOf := func(thread int) int {
		if slices.Contains(words, "adjacent") {
			return thread / dims[4]
		}
		return thread % cores
	}
	files := fstest.MapFS{}
	online := slices.DeleteFunc(numbers.Below(threads), func(thread int) bool { return slices.Contains(offline, thread) })
	for _, thread := range online {
		write := func(name, text string) {
			if !strings.Contains(name, without) {
				files[cpu.Folder(thread)+name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
		sharing := func(size int) string { // in blocks of size cores
			return topo.RankList(slices.DeleteFunc(slices.Clone(online), func(other int) bool {
				return coreOf(other)/size != coreOf(thread)/size
			}))
		}
		cache, node := dims[3], dims[3]*dims[2]
		write("topology/thread_siblings_list", sharing(1))
		write("topology/core_siblings_list", sharing(node*dims[1]))
		write("topology/physical_package_id", fmt.Sprint(coreOf(thread)/(node*dims[1])))
		write(fmt.Sprintf("node%d/cpulist", coreOf(thread)/node), sharing(node))
		for i, level := range []string{"1", "1", "2", "3"} {
			shared := sharing(1)
			if level == "3" {
				shared = sharing(cache)
			}
			write(fmt.Sprintf("cache/index%d/level", i), level)
			write(fmt.Sprintf("cache/index%d/shared_cpu_list", i), shared)
		}
	}
	return &Machine{Allowed: online, System: files}
}

func number(t testing.TB, text string) int {
	t.Helper()
	return listOf(t, text)[0]
}

func listOf(t testing.TB, text string) []int {
	t.Helper()
	list := numbers.ParseList(text, maxCores)
	if list == nil {
		t.Fatalf("%q is no list", text)
	}
	return list
}

// scenario returns the output of the last line of input, the only one that makes no machine. Groups of ranks are
// separated by colons.
func scenario(t *testing.T, m *Machine, input string) string {
	t.Helper()
	words := strings.Fields(input[strings.LastIndex(input, "\n")+1:])
	here := *m
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "allowed=") }); i > 0 {
		here.Allowed = listOf(t, strings.TrimPrefix(words[i], "allowed="))
		words = slices.Delete(words, i, i+1)
	}
	var groups []*Group
	ranks := 0
	for rest, more := words[1:], true; more; {
		var own []string
		own, rest, more = cutWord(rest, ":")
		g := group(t, &here, words[0] == "slots", own, ranks)
		if err := g.Check(); err != nil {
			return err.Error()
		}
		ranks += len(g.Ranks)
		groups = append(groups, g)
	}
	if err := PlanAll(&here, groups); err != nil {
		return err.Error()
	}
	var out []string
	for _, g := range groups {
		for i, p := range g.Places {
			text := "any"
			if p.Cores != nil {
				text = p.String()
			}
			if d := common(p.Cores, here.Allowed); len(d) != len(p.Cores) {
				t.Errorf("%s: rank %d is bound to %v, outside of %v", input, g.Ranks[i], p.Cores, here.Allowed)
			}
			out = append(out, fmt.Sprintf("rank %d: %s", g.Ranks[i], text))
		}
	}
	return strings.Join(out, "\n")
}

// cutWord returns the words before and after the first one that is sep, and whether there is one.
func cutWord(words []string, sep string) (before, after []string, found bool) {
	i := slices.Index(words, sep)
	if i < 0 {
		return words, nil, false
	}
	return words[:i], words[i+1:], true
}

// group reads the settings of a group, whose ranks are those from first on.
func group(t *testing.T, m *Machine, slots bool, words []string, first int) *Group {
	t.Helper()
	g := &Group{Share: Share{Usable: len(m.Allowed), NUMANodes: m.NUMANodes()}}
	n := 0
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "of":
			first, total, _ := strings.Cut(value, "/")
			g.First, g.Total = number(t, first), number(t, total)
		case "usable":
			g.Usable = number(t, value)
		case "map-by":
			g.MapBy = map[string]Level{"numa": NUMA, "socket": Socket, "l3": L3}[value]
		case "per-rank":
			g.PerRank = number(t, value)
		case "bind":
			g.Bind = map[string]Bind{"core": Core, "none": None}[value]
		case "over":
			g.Oversubscribe = true
		case "gpus":
			for near := range strings.SplitSeq(value, "/") {
				g.Near = append(g.Near, listOf(t, near))
			}
		default:
			if n++; slots {
				g.Slots = append(g.Slots, Slots{fmt.Sprintf("f:%d", n), w})
			} else {
				n = number(t, w)
			}
		}
	}
	for rank := range n {
		g.Ranks = append(g.Ranks, first+rank)
	}
	g.Total = max(g.Total, n)
	return g
}
