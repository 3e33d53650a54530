package sparse

import (
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/internal/side"
	"github.com/treerun/treerun/collective/sparse/block"
)

// priced predicts the Aggregators form of four ranks on hosts of their own, which send
// a tenth of 64 MiB each, the same blocks, with aggregators on these hosts.
func priced(aggregators ...int) (time.Duration, *reduction) {
	c := &side.Comm{
		Size: 4, Hosts: []int{0, 1, 2, 3}, Aggregators: len(aggregators), AggregatorHosts: aggregators,
		DenseUs: func(bytes int) (string, float64) { return "", 1.5 * float64(bytes) / 1e3 }, // 1 GB/s
	}
	s := &state{c: c, prices: make(map[int]float64), aggs: make([]int, 4)}
	if len(aggregators) > 0 {
		s.own = newOwn(4, len(aggregators))
	}
	r := &reduction{state: s, cfg: newConfig(nil), call: call{dtype: kernel.Float32, op: kernel.Sum}, grid: block.Grid{Elements: 16 << 20, Size: 1024, Width: 4}}
	e := estimate{mean: 0.1, most: 0.1, union: 0.1, host: 0.1}
	r.predict(&e, false)
	return e.us[Aggregators], r
}

// The price knows whose cards aggregators use: on hosts of their own, as many as there
// are ranks spare these a third; beside the ranks they change nothing; and one alone is
// a bottleneck.
func TestOwnPrice(t *testing.T) {
	ranks, _ := priced()
	apart, r := priced(4, 5, 6, 7)
	beside, _ := priced(0, 1, 2, 3)
	one, _ := priced(4)
	crowded, _ := priced(0)
	near := func(a, b time.Duration) bool { return a > b*95/100 && a < b*105/100 }
	handling := 2 * 0.1 * float64(r.grid.Blocks()) * blockUs
	if h := micro(handling); !near(apart-h, (ranks-h)*2/3) || !near(beside, ranks) || one < 2*apart || one > 5*apart {
		t.Errorf("ranks %v, aggregators apart %v, beside %v, one %v, one beside a rank %v", ranks, apart, beside, one, crowded)
	}
	if crowded >= one { // a part of what it gets does not leave its host
		t.Errorf("one on a rank's host takes %v, on its own %v", crowded, one)
	}
	if words := r.whoAggregates(Aggregators); !strings.Contains(words, "4 aggregators of their own") || r.whoAggregates(Trees) != "" {
		t.Errorf("words %q", words)
	}
	r.own, r.c.Apart = nil, true
	if words := r.whoAggregates(Aggregators); !strings.Contains(words, "this is of a Split: ranks aggregate") {
		t.Errorf("words %q", words)
	}
}
