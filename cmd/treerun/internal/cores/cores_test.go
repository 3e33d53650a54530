package cores

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/numbers"
)

// TestShareOf: all cores are given out, evenly, and ranks share only when there are too few.
func TestShareOf(t *testing.T) {
	for _, tc := range []struct {
		cores []int
		size  int
		want  string
	}{
		{[]int{0, 1}, 1, "[[0 1]]"},
		{[]int{0, 1}, 2, "[[0] [1]]"},
		{[]int{2, 3, 6, 7}, 2, "[[2 3] [6 7]]"},
		{[]int{0, 1, 2, 3, 4}, 2, "[[0 1] [2 3 4]]"},
		{[]int{0, 1}, 5, "[[0] [1] [0] [1] [0]]"},
	} {
		var got [][]int
		for r := range tc.size {
			got = append(got, shareOf(tc.cores, r, tc.size))
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("cores %v for %d ranks: %v, want %s", tc.cores, tc.size, got, tc.want)
		}
	}
}

// TestPlan: ranks are bound where every core has several and the same number of them, or where there are NUMA
// nodes. Ranks with a GPU stay on the cores of its NUMA node, on all of them unless the user wants shares.
func TestPlan(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	low, high := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
	for _, tc := range []struct {
		name         string
		bind         Bind
		near         [][]int
		first, among int
		usable       int
		nodes        int
		want         string
	}{
		{"no GPU", Auto, [][]int{nil, nil}, 0, 2, 8, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"no GPU, one node", Auto, [][]int{nil, nil}, 0, 2, 8, 1, "[[] []]"},
		{"no GPU, one node, cores", Core, [][]int{nil, nil}, 0, 2, 8, 1, "[[0 1 2 3] [4 5 6 7]]"},
		{"no GPU, one node, twice as many", Auto, [][]int{nil, nil}, 8, 16, 8, 1, "[[0] [1]]"},
		{"no GPU, neighbors", Auto, [][]int{nil, nil}, 2, 4, 8, 2, "[[4 5] [6 7]]"},
		{"no GPU, a quota", Auto, [][]int{nil, nil}, 0, 2, 4, 2, "[[] []]"},
		{"no GPU, twice as many", Auto, [][]int{nil, nil}, 8, 16, 8, 2, "[[0] [1]]"},
		{"no GPU, uneven", Auto, [][]int{nil, nil}, 0, 9, 8, 2, "[[] []]"},
		{"no GPU, uneven, cores", Core, [][]int{nil, nil}, 0, 9, 8, 2, "[[0] [1]]"},
		{"nodes", Auto, [][]int{low, low, high}, 0, 3, 8, 2, "[[0 1 2 3] [0 1 2 3] [4 5 6 7]]"},
		{"nodes, a quota", Auto, [][]int{low, high}, 0, 2, 4, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"one node", Auto, [][]int{all, all}, 0, 2, 8, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"nodes, cores", Core, [][]int{low, high, low}, 0, 3, 8, 2, "[[0 1] [4 5 6 7] [2 3]]"},
		{"nodes, nothing", None, [][]int{low, high}, 0, 2, 8, 2, "[[] []]"},
		{"many on one node", Auto, [][]int{low, low, low, low, low}, 0, 5, 8, 2,
			"[[0 1 2 3] [0 1 2 3] [0 1 2 3] [0 1 2 3] [0 1 2 3]]"},
	} {
		if got := planned(t, tc.bind, all, &Share{Ranks: make([]int, len(tc.near)), Near: tc.near, First: tc.first,
			Total: tc.among, Usable: tc.usable, NUMANodes: tc.nodes}); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := planned(t, Core, nil, &Share{Ranks: []int{0}, Near: [][]int{nil}, Total: 1, Usable: 8}); got != "[[]]" {
		t.Errorf("without cores: %s", got)
	}
	if got := fmt.Sprint(common(all, []int{-3, 2, 7, 9})); got != "[2 7]" {
		t.Errorf("common: %s", got)
	}
}

// planned returns the cores of each rank on a machine whose kernel shows no parts.
func planned(t *testing.T, bind Bind, allowed []int, s *Share) string {
	t.Helper()
	plan, err := (&Request{Bind: bind}).Plan(&Machine{Allowed: allowed, System: fstest.MapFS{}}, s)
	if err != nil {
		t.Fatal(err)
	}
	var cores [][]int
	for _, p := range plan {
		cores = append(cores, p.Cores)
	}
	return fmt.Sprint(cores)
}

// TestPlanProperties: on any machine, with any of its cores allowed, a plan keeps to these cores, gives each rank as
// many as the user wants, and lets two ranks share one only with --oversubscribe.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var words []string
		for _, most := range []int{2, 2, 2, 4, 2} {
			words = append(words, strconv.Itoa(rapid.IntRange(1, most).Draw(rt, "size")))
		}
		if rapid.Bool().Draw(rt, "adjacent") {
			words = append(words, "adjacent")
		}
		m := machine(t, words)
		keep := rapid.SliceOfN(rapid.Bool(), len(m.Allowed), len(m.Allowed)).Draw(rt, "allowed")
		m.Allowed = slices.DeleteFunc(m.Allowed, func(core int) bool { return !keep[core] })
		r := Request{MapBy: Level(rapid.IntRange(0, int(L3)).Draw(rt, "map-by")),
			PerRank: rapid.IntRange(0, 5).Draw(rt, "per-rank"), Oversubscribe: rapid.Bool().Draw(rt, "over"),
			Bind: Bind(rapid.IntRange(0, 1).Draw(rt, "bind"))}
		n := rapid.IntRange(1, 20).Draw(rt, "ranks")
		s := &Share{Ranks: numbers.Below(n), Total: n, Usable: len(m.Allowed), NUMANodes: m.NUMANodes()}
		plan, err := r.Plan(m, s)
		parts, _ := m.parts(r.MapBy)
		room := 0
		for _, p := range parts {
			room += len(p.Cores) / max(1, r.PerRank)
		}
		if fits := r.PerRank == 0 || room >= n || r.Oversubscribe && room > 0 || len(m.Allowed) == 0; fits != (err == nil) {
			rt.Fatalf("%+v, %d ranks on cores %v with room for %d: error %v", r, n, m.Allowed, room, err)
		}
		owner := make(map[int]int)
		for i, p := range plan {
			if len(common(p.Cores, m.Allowed)) != len(p.Cores) {
				rt.Fatalf("rank %d is bound to %v, outside of %v", i, p.Cores, m.Allowed)
			}
			if r.PerRank == 0 || len(m.Allowed) == 0 {
				continue
			}
			if len(p.Cores) != r.PerRank || !slices.ContainsFunc(parts, func(q Place) bool {
				return len(common(p.Cores, q.Cores)) == r.PerRank
			}) {
				rt.Fatalf("%+v: rank %d has cores %v", r, i, p.Cores)
			}
			for _, core := range p.Cores {
				if other, taken := owner[core]; taken && room >= n {
					rt.Fatalf("%+v: ranks %d and %d have core %d", r, other, i, core)
				}
				owner[core] = i
			}
		}
	})
}

// TestPlanAllProperties: on any machine, cores that a program has for each of its ranks are no other rank's, unless
// cores may be shared, and no rank that is bound is without a core.
func TestPlanAllProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := machine(t, []string{"1", "2", "1", strconv.Itoa(rapid.IntRange(1, 8).Draw(rt, "cores")), "1"})
		over := rapid.Bool().Draw(rt, "over")
		var groups []*Group
		ranks, own, binds := 0, 0, false
		for range rapid.IntRange(1, 4).Draw(rt, "groups") {
			n := rapid.IntRange(1, 4).Draw(rt, "ranks")
			g := &Group{Share: Share{Total: n, Usable: len(m.Allowed), NUMANodes: 2}}
			g.Oversubscribe = over
			for range n {
				g.Ranks = append(g.Ranks, ranks)
				ranks++
			}
			if g.Bind = Bind(rapid.IntRange(0, 2).Draw(rt, "bind")); g.Bind != None {
				g.PerRank = rapid.IntRange(0, 3).Draw(rt, "per-rank")
			}
			own += n * g.PerRank
			binds = binds || g.Bind == Core && g.PerRank == 0
			groups = append(groups, g)
		}
		fits := own < len(m.Allowed) || own == len(m.Allowed) && !binds
		err := PlanAll(m, groups)
		if !over && fits != (err == nil) {
			rt.Fatalf("%d cores for each rank of %d, shares %v: error %v", own, len(m.Allowed), binds, err)
		}
		if err != nil {
			return
		}
		users := make(map[int][]*Group) // by core
		for _, g := range groups {
			for i, p := range g.Places {
				if p.Cores != nil && len(p.Cores) == 0 || g.PerRank > 0 && len(p.Cores) != g.PerRank {
					rt.Fatalf("rank %d has cores %v, with %d for each", g.Ranks[i], p.Cores, g.PerRank)
				}
				for _, core := range p.Cores {
					users[core] = append(users[core], g)
				}
			}
		}
		for core, all := range users {
			if fits && len(all) > 1 && slices.ContainsFunc(all, func(g *Group) bool { return g.PerRank > 0 }) {
				rt.Fatalf("core %d has %d ranks, although there is room", core, len(all))
			}
		}
	})
}

// FuzzSlots: a list of slots of a rank file gives some of the allowed cores, or an error of one line.
func FuzzSlots(f *testing.F) {
	for _, s := range []string{"0-2,5", "*", "1:0,1", "0:*", "0:0;1:1-2", "0:", ":", ",", "1:2:3", "9:*", "-1",
		"0-99999"} {
		f.Add(s)
	}
	m := machine(f, []string{"2", "1", "1", "4", "2"})
	f.Fuzz(func(t *testing.T, text string) {
		if (&Slots{List: text}).check() != nil {
			return
		}
		list, err := m.coresOf(text)
		if (err != nil) != (list == nil) || err != nil && len(err.Error()) > 400 {
			t.Fatalf("%v, %v", list, err)
		}
		if len(common(list, m.Allowed)) != len(list) || !slices.IsSorted(list) {
			t.Fatalf("%q: cores %v", text, list)
		}
	})
}
