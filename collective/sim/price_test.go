package sim

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

func chainTree(n int) topo.Tree {
	t := topo.Tree{Parent: make([]int, n)}
	for v := range n {
		t.Parent[v] = v - 1
	}
	return t
}

func mustTrees(t testing.TB, kind plan.Kind, form plan.Form, trees ...topo.Tree) *plan.Plan {
	t.Helper()
	p, err := plan.FromTrees(kind, trees, nil, form)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func price(t testing.TB, p *plan.Plan, g *topo.Graph, bytes int64, m machine) Result {
	t.Helper()
	r, err := Price(p, g, bytes, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// A pipeline of h hops takes (h+m-1) S/(m b) with m chunks, and an AllReduce with both
// ways at once twice the hops.
func TestPipelineClosedForm(t *testing.T) {
	for _, hops := range []int{1, 2, 5, 9} {
		for _, chunks := range []int{1, 4, 7, 64} {
			for _, slots := range []int{0, 2, 8} {
				const size = 1 << 20
				const rate = 2.0 // GB/s
				g := topo.UniformGraph(hops + 1)
				for i := range g.Links {
					g.Links[i].GBytesPerSecond = rate
				}
				chunk := (size/chunks + 63) &^ 63
				m := Machine{Slots: slots, SlotBytes: chunk, MinChunk: chunk}
				last := size - chunk*(chunks-1)
				one := func(bytes int) float64 { return float64(bytes) / (rate * 1e3) }
				for _, c := range []struct {
					kind plan.Kind
					hops int
				}{{plan.Broadcast, hops}, {plan.Reduce, hops}, {plan.AllReduce, 2 * hops}} {
					p := mustTrees(t, c.kind, plan.Split, chainTree(hops+1))
					got := price(t, p, g, size, m).Us
					// All chunks but the last fill the pipe; the last, which may be smaller, ends behind them.
					want := float64(c.hops)*one(chunk) + float64(chunks-1)*one(chunk) - one(chunk) + one(last)
					if chunks == 1 {
						want = float64(c.hops) * one(last)
					}
					if !near(got, want) {
						t.Errorf("%v over %d hops, %d chunks, %d slots: %v us, want %v", c.kind, hops, chunks, slots, got, want)
					}
				}
			}
		}
	}
}

// TestFinalsShareALaunch: the root of a Reduce over relays adds the values that arrive over all trees in one launch, so
// that its port is full. With a launch each the host is too slow: that was 318 GB/s.
func TestFinalsShareALaunch(t *testing.T) {
	const n, bytes = 8, 1 << 30
	g, _ := topo.Machine("dgxh100")
	var trees []topo.Tree
	for via := 1; via < n; via++ {
		one := topo.Star(n, via)
		one.Root, one.Parent[0], one.Parent[via] = 0, -1, 0
		trees = append(trees, one)
	}
	p, err := plan.FromTrees(plan.Reduce, trees, nil, plan.Single)
	if err != nil {
		t.Fatal(err)
	}
	m := Device(4, 2340<<10)
	most := Limits{Steps: 4000, Chunks: 32, Us: math.Inf(1)}
	us, err := NewPricer(g, topo.NewWays(g), m).Us(p, bytes, 1, plan.Chunks{}, most)
	if rate := bytes / us / 1e3; err != nil || rate < 400 || rate > 450 {
		t.Errorf("%.0f GB/s, %v; want 400 to 450", rate, err)
	}
}
