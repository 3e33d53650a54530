package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/pack"
)

// planOf gives every tree two lanes of its own.
func planOf(shares []float64, parents ...[]int) *Plan {
	p := &Plan{Size: len(parents[0]), Shares: shares, Slots: 8}
	for i, parent := range parents {
		t := Tree{Parent: parent, Up: 2 * i, Down: 2*i + 1}
		p.Trees = append(p.Trees, t)
		for v, u := range parent {
			if u >= 0 {
				p.Links = append(p.Links, Link{t.Up, v, u}, Link{t.Down, u, v})
			}
		}
	}
	return p
}

func star(n, root int) []int {
	parent := slices.Repeat([]int{root}, n)
	parent[root] = -1
	return parent
}

func chain(n int) []int {
	parent := make([]int, n)
	for v := range parent {
		parent[v] = v - 1
	}
	return parent
}

// shaped draws a tree over ranks in any order: a star, a chain, one of two or three
// children, one over the first ranks of hosts, or any.
func shaped(t *rapid.T, n int) []int {
	order := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
		for v := range n {
			if !yield(v) {
				return
			}
		}
	})).Draw(t, "order")
	shape := rapid.SampledFrom([]string{"star", "chain", "binary", "ternary", "hosts", "any"}).Draw(t, "shape")
	host := rapid.IntRange(1, n).Draw(t, "ranks of a host")
	parent := make([]int, n)
	parent[order[0]] = -1
	for i := 1; i < n; i++ {
		at := 0
		switch shape {
		case "chain":
			at = i - 1
		case "binary":
			at = (i - 1) / 2
		case "ternary":
			at = (i - 1) / 3
		case "hosts":
			if at = i / host * host; at == i {
				at = (i/host - 1) / 2 * host // a binary tree of the hosts' first ranks
			}
		case "any":
			at = rapid.IntRange(0, i-1).Draw(t, "parent")
		}
		parent[order[i]] = order[at]
	}
	return parent
}

func drawn(t *rapid.T) *Plan {
	n := rapid.IntRange(1, 9).Draw(t, "ranks")
	var parents [][]int
	for range rapid.IntRange(1, 5).Draw(t, "trees") {
		parents = append(parents, shaped(t, n))
	}
	shares := rapid.SliceOfN(rapid.Float64Range(0, 1), len(parents), len(parents)).Draw(t, "shares")
	shares[rapid.IntRange(0, len(shares)-1).Draw(t, "not zero")] += 0.1
	p := planOf(shares, parents...)
	p.Slots = rapid.IntRange(1, 4).Draw(t, "slots")
	return p
}

// Plans of all shapes are correct: stars, chains, trees over hosts, several of them, with any shares.
func TestPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := Verify(drawn(t)); err != nil {
			t.Fatal(err)
		}
	})
	for _, n := range []int{1, 2, 16, 64} {
		var stars [][]int
		for root := range n {
			stars = append(stars, star(n, root))
		}
		if err := Verify(planOf(slices.Repeat([]float64{1}, n), stars...)); err != nil {
			t.Errorf("%d stars: %v", n, err)
		}
	}
	if err := Verify(planOf([]float64{1}, chain(300))); err != nil {
		t.Errorf("a chain of 300: %v", err)
	}
}

// The trees that the planner packs into real machines, each with its own rate, are correct as well.
func TestPackedTrees(t *testing.T) {
	weighted := false
	for _, name := range []string{"dgx1v", "dgx1p", "two-sockets", "abilene"} {
		g, ok := topo.Machine(name)
		if !ok {
			t.Fatalf("no machine %s", name)
		}
		r, err := pack.Pack(g, pack.BothWays, pack.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var parents [][]int
		for _, tree := range r.Trees {
			parents = append(parents, tree.Parent)
		}
		p := planOf(r.Rates, parents...)
		if err := Verify(p); err != nil {
			t.Errorf("%s: %d trees of rates %v: %v", name, len(parents), r.Rates, err)
		}
		weighted = weighted || slices.Min(r.Rates) < slices.Max(r.Rates)
	}
	if !weighted {
		t.Error("all rates are the same")
	}
}

// change makes a plan wrong, and has the reason for which it must be refused.
type change struct {
	name string
	make func(p *Plan)
	want Reason
	text string
}

// The plan that changes are made to has 5 ranks: a chain, a star around rank 2, and one
// over two hosts, {0, 1, 2} and {3, 4}.
func good() *Plan { return planOf([]float64{1, 2, 1}, chain(5), star(5, 2), []int{-1, 0, 0, 0, 3}) }

var changes = []change{
	{"no trees", func(p *Plan) { p.Trees, p.Shares = nil, []float64{1} }, NotATree, "0 trees"},
	{"a share too few", func(p *Plan) { p.Shares = p.Shares[:2] }, NotATree, "3 trees with 2 shares"},
	{"a rank too few", func(p *Plan) { p.Trees[1].Parent = p.Trees[1].Parent[:4] }, NotATree,
		"tree 1: not a tree: 4 parents for 5 ranks"},
	{"two roots", func(p *Plan) { p.Trees[2].Parent[3] = -1 }, NotATree,
		"tree 2: rank 3: not a tree: a second root besides rank 0"},
	{"no root", func(p *Plan) { p.Trees[0].Parent[0] = 4 }, NotATree, "tree 0: not a tree: no root"},
	{"a circle apart from the root", func(p *Plan) { p.Trees[0].Parent[2] = 4 }, NotATree,
		"rank 2: not a tree: its blocks do not come to root 0: they go round"},
	{"its own parent", func(p *Plan) { p.Trees[1].Parent[4] = 4 }, NotATree, "rank 4: not a tree: its parent is rank 4"},
	{"a parent that is no rank", func(p *Plan) { p.Trees[1].Parent[4] = 5 }, NotATree, "its parent is rank 5 of 5"},
	{"a negative parent", func(p *Plan) { p.Trees[1].Parent[4] = -2 }, NotATree, "its parent is rank -2"},
	{"a link that is not there", func(p *Plan) { p.Links = p.Links[1:] }, WrongLinks,
		"tree 0: rank 1: wrong links: no link from rank 1 to rank 0 in lane 0"},
	{"a link the other way round", func(p *Plan) { p.Links[0].Src, p.Links[0].Dst = p.Links[0].Dst, p.Links[0].Src },
		WrongLinks, "no link from rank 1 to rank 0"},
	{"a link twice", func(p *Plan) { p.Links = append(p.Links, p.Links[3]) }, WrongLinks, "two links from rank"},
	{"a parent without its links", func(p *Plan) { p.Trees[2].Parent[4] = 1 }, WrongLinks,
		"tree 2: rank 4: wrong links: no link from rank 4 to rank 1 in lane 4"},
	{"a lane for two trees", func(p *Plan) { p.Trees[1] = p.Trees[0] }, WrongLinks,
		"tree 1: rank 1: wrong links: the link from rank 1 to rank 0 in lane 0 is used by tree 0, too"},
	{"a lane both ways", func(p *Plan) {
		p.Trees = append(p.Trees[:1], Tree{Parent: []int{1, 2, 3, 4, -1}, Up: 1, Down: 0})
		p.Shares = p.Shares[:2]
	}, WrongLinks, "is used by tree 0, too"},
	{"no slots", func(p *Plan) { p.Slots = 0 }, WrongLinks, "0 slots"},
	{"no shares", func(p *Plan) { p.Shares = []float64{0, 0, 0} }, WrongDeal, "sum up to 0"},
	{"a negative share", func(p *Plan) { p.Shares[1] = -1 }, WrongDeal, "share -1"},
}

func TestWrongPlans(t *testing.T) {
	if err := Verify(good()); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		p := good()
		c.make(p)
		var e *Error
		if err := Verify(p); !errors.As(err, &e) || e.Reason != c.want || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q with %q", c.name, err, c.want, c.text)
		}
	}
}

// Any other parent of any rank is refused: the links are those of the plan.
func TestEveryOtherParentIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(t)
		tree := &p.Trees[rapid.IntRange(0, len(p.Trees)-1).Draw(t, "tree")]
		v, u := rapid.IntRange(0, p.Size-1).Draw(t, "rank"), rapid.IntRange(-1, p.Size).Draw(t, "parent")
		if tree.Parent[v] == u {
			return
		}
		if tree.Parent[v] = u; Verify(p) == nil {
			t.Fatalf("%+v is taken", p)
		}
	})
}

// oddDeal is a deal with one fault.
type oddDeal struct {
	*block.Deal
	tree  func(b int) int
	split func(parts []block.Set)
}

func (d *oddDeal) Tree(b int) int {
	if d.tree != nil {
		return d.tree(b)
	}
	return d.Deal.Tree(b)
}

func (d *oddDeal) Split(s block.Set, from, to int, parts []block.Set) {
	d.Deal.Split(s, from, to, parts)
	if d.split != nil {
		d.split(parts)
	}
}

func TestWrongDeals(t *testing.T) {
	p := good()
	d, err := block.NewDeal(p.Shares, 1)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.checkDeal(&oddDeal{Deal: d}, 1); e != nil {
		t.Fatal(e)
	}
	for name, odd := range map[string]*oddDeal{
		"no tree":          {tree: func(int) int { return 3 }},
		"all to one":       {tree: func(int) int { return 1 }},
		"a block left out": {split: func(parts []block.Set) { parts[d.Tree(7)][0] &^= 1 << 7 }},
		"a block twice":    {split: func(parts []block.Set) { parts[(d.Tree(9)+1)%3].Add(9) }},
	} {
		odd.Deal = d
		if e := p.checkDeal(odd, 1); e == nil || e.Reason != WrongDeal {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// The run alone detects errors on the way: a chunk that is lost, duplicated, misdirected, late, or changed.
func TestEveryChunkCounts(t *testing.T) {
	p := planOf([]float64{1, 1}, []int{-1, 0, 0, 1}, []int{1, 3, 3, -1})
	d, err := block.NewDeal(p.Shares, 1)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	count := func(c chunkOf) []chunkOf { number++; return []chunkOf{c} }
	if e := p.run(d, scattered, 2, count); e != nil {
		t.Fatal(e)
	}
	total := number
	if total < 100 {
		t.Fatalf("%d chunks", total)
	}
	var kept []chunkOf
	for name, change := range map[string]func(c chunkOf) []chunkOf{
		"lost":  func(chunkOf) []chunkOf { return nil },
		"twice": func(c chunkOf) []chunkOf { again := c; again.bytes = bytes.Clone(c.bytes); return []chunkOf{c, again} },
		"the other way": func(c chunkOf) []chunkOf {
			c.up, c.src, c.dst = !c.up, c.dst, c.src
			return []chunkOf{c}
		},
		"to the wrong rank": func(c chunkOf) []chunkOf {
			if c.up {
				c.src = (c.src + 1) % 4
			} else {
				c.dst = (c.dst + 1) % 4
			}
			return []chunkOf{c}
		},
		"other numbers": func(c chunkOf) []chunkOf {
			if len(c.bytes) < 32 {
				return nil // it has none: lose it
			}
			c.bytes[16] ^= 1
			return []chunkOf{c}
		},
		"held back": func(c chunkOf) []chunkOf { kept = append(kept, c); return nil },
	} {
		for at := range total {
			number, kept = 0, nil
			e := p.run(d, scattered, 2, func(c chunkOf) []chunkOf {
				number++
				if number == at+1 {
					return change(c)
				}
				if len(kept) > 0 && kept[0].src == c.src && kept[0].dst == c.dst && kept[0].up == c.up {
					c = kept[0]
					kept = nil
					return []chunkOf{c} // and the later one is lost
				}
				return []chunkOf{c}
			})
			if e == nil {
				t.Errorf("%s: chunk %d of %d", name, at, total)
			}
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{4, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var stars [][]int
			for root := range n {
				stars = append(stars, star(n, root))
			}
			p := planOf(slices.Repeat([]float64{1}, n), stars...)
			for b.Loop() {
				if err := Verify(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("any 16", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 1))
		parent := make([]int, 16)
		for v := range parent {
			parent[v] = -1
			if v > 0 {
				parent[v] = r.IntN(v)
			}
		}
		p := planOf([]float64{1}, parent)
		for b.Loop() {
			if err := Verify(p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
