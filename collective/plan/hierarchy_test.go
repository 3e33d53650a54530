package plan

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"pgregory.net/rapid"
)

// drawHierarchy spreads n ranks over hosts in any way, with any trees inside
// and between them.
func drawHierarchy(t *rapid.T, n int) *Hierarchy {
	order := rapid.Permutation(ranks(n)).Draw(t, "ranks")
	h := &Hierarchy{}
	for len(order) > 0 {
		size := rapid.IntRange(1, len(order)).Draw(t, "size")
		h.Hosts = append(h.Hosts, order[:size])
		order = order[size:]
		var local []topo.Tree
		for range rapid.IntRange(1, 3).Draw(t, "carriers") {
			local = append(local, drawTree(t, size, "local"))
		}
		h.Local = append(h.Local, local)
	}
	for range rapid.IntRange(1, 2).Draw(t, "trees") {
		h.Between = append(h.Between, drawTree(t, len(h.Hosts), "between"))
		h.Weights = append(h.Weights, rapid.Float64Range(0.1, 10).Draw(t, "weight"))
	}
	return h
}

// Every hierarchy gives right plans, with one link per pair of joined hosts in
// each tree, between the carriers.
func TestHierarchicalIsVerified(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "n")
		h := drawHierarchy(t, n)
		g := topo.UniformGraph(n)
		kind := rapid.SampledFrom(allKinds).Draw(t, "kind")
		opt := Options{Form: rapid.SampledFrom([]Form{Single, Split}).Draw(t, "form")}
		p, err := Hierarchical(kind, g, h, rapid.IntRange(0, n-1).Draw(t, "root"), opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(p, rapid.IntRange(1, 9).Draw(t, "slots")); err != nil {
			t.Fatalf("%v\n%v", err, p)
		}
		trees, weights, err := h.Trees(g)
		if err != nil {
			t.Fatal(err)
		}
		total, want := 0.0, 0.0
		carriers := 0
		for _, local := range h.Local {
			carriers = max(carriers, len(local))
		}
		for b, between := range h.Between {
			want += h.Weights[b] * float64(carriers)
			for c := range carriers {
				composed := composed(h, between, c)
				if !slices.ContainsFunc(trees, func(t topo.Tree) bool { return slices.Equal(t.Parent, composed) }) {
					t.Fatalf("no tree with parents %v", composed)
				}
			}
		}
		for i, tree := range trees {
			total += weights[i]
			if slices.ContainsFunc(trees[:i], func(t topo.Tree) bool { return slices.Equal(t.Parent, tree.Parent) }) {
				t.Fatalf("tree %d stands twice: %v", i, tree.Parent)
			}
		}
		if math.Abs(total-want) > 1e-9*want {
			t.Fatalf("weights of %v in all, want %v", total, want)
		}
	})
}

// composed returns the parents of the tree over all ranks of which between and
// the local trees of carrier c are the parts.
func composed(h *Hierarchy, between topo.Tree, c int) []int {
	n := 0
	for _, ranks := range h.Hosts {
		n += len(ranks)
	}
	parents := make([]int, n)
	for host, ranks := range h.Hosts {
		local := h.Local[host][c%len(h.Local[host])]
		for v, r := range ranks {
			want := -1
			if up := between.Parent[host]; local.Parent[v] >= 0 {
				want = ranks[local.Parent[v]]
			} else if up >= 0 {
				want = h.Hosts[up][h.Local[up][c%len(h.Local[up])].Root]
			}
			parents[r] = want
		}
	}
	return parents
}

// Where carriers have no link, the quickest link of their hosts joins them.
func TestHierarchyWithoutCarrierLinks(t *testing.T) {
	g := &topo.Graph{Ranks: 5, Hosts: []int{7, 7, 7, 3, 3}, Links: []topo.Link{
		{A: 0, B: 1, GBytesPerSecond: 9}, {A: 1, B: 2, GBytesPerSecond: 9}, {A: 3, B: 4, GBytesPerSecond: 9},
		{A: 1, B: 4, GBytesPerSecond: 1}, {A: 4, B: 2, GBytesPerSecond: 2}}}
	chain3, chain2 := topo.Tree{Parent: []int{-1, 0, 1}}, topo.Tree{Parent: []int{-1, 0}}
	h := &Hierarchy{Hosts: Hosts(g), Local: [][]topo.Tree{{chain3}, {chain2}}, Between: []topo.Tree{chain2}}
	if want := [][]int{{0, 1, 2}, {3, 4}}; !reflect.DeepEqual(h.Hosts, want) {
		t.Fatalf("hosts %v, want %v", h.Hosts, want)
	}
	trees, weights, err := h.Trees(g)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{-1, 0, 1, 4, 2}; len(trees) != 1 || !slices.Equal(trees[0].Parent, want) || trees[0].Missing(g) >= 0 {
		t.Errorf("trees %v, want one with parents %v", trees, want)
	}
	if fmt.Sprint(weights) != "[1]" {
		t.Errorf("weights %v", weights)
	}
	g.Links = g.Links[:3]
	if _, _, err := h.Trees(g); err == nil || !strings.Contains(err.Error(), "no link between hosts 0 and 1") {
		t.Errorf("%v, want hosts without a link", err)
	}
}

func TestHierarchyRefuses(t *testing.T) {
	one, two := topo.Tree{Parent: []int{-1}}, topo.Tree{Parent: []int{-1, 0}}
	g := topo.UniformGraph(2)
	good := Hierarchy{Hosts: [][]int{{0}, {1}}, Local: [][]topo.Tree{{one}, {one}}, Between: []topo.Tree{two}}
	for _, c := range []struct {
		name   string
		change func(h *Hierarchy)
		want   string
	}{
		{"nothing", func(h *Hierarchy) {}, ""},
		{"no hosts", func(h *Hierarchy) { h.Hosts = nil }, "0 hosts"},
		{"few local trees", func(h *Hierarchy) { h.Local = h.Local[:1] }, "local trees for 1"},
		{"no local tree", func(h *Hierarchy) { h.Local = [][]topo.Tree{{one}, {}} }, "host 1 has no local tree"},
		{"a wrong local tree", func(h *Hierarchy) { h.Local = [][]topo.Tree{{one}, {two}} }, "local tree 0 of host 1: "},
		{"no tree between", func(h *Hierarchy) { h.Between = nil }, "without trees"},
		{"a wrong tree between", func(h *Hierarchy) { h.Between = []topo.Tree{one} }, "tree 0 between hosts"},
		{"weights", func(h *Hierarchy) { h.Weights = []float64{1, 2} }, "2 weights for 1 trees"},
		{"a rank twice", func(h *Hierarchy) { h.Hosts = [][]int{{0}, {0}} }, "rank 0 stands twice"},
		{"a rank too few", func(h *Hierarchy) { h.Hosts, h.Local, h.Between = h.Hosts[:1], h.Local[:1], []topo.Tree{one} }, "1 ranks, want 2"},
	} {
		h := good
		c.change(&h)
		_, err := Hierarchical(AllReduce, g, &h, 0, Options{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Hierarchical(Reduce, g, &good, 2, Options{}); err == nil || !strings.Contains(err.Error(), "root 2 of a reduce") {
		t.Errorf("%v, want no root 2", err)
	}
}
