//go:build cgo && linux

package device

import (
	"slices"
	"sync"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// launches has the kernels of a rank, and notes the memory that their launches touch.
type launches struct {
	*kernels.Set
	t    *testing.T
	g    *Group
	mu   *sync.Mutex
	seen map[kernels.Where]int
}

func (l *launches) Run(s *cuda.Stream, w *kernel.Work, parts []kernels.Part) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range parts {
		if want := farthest(&l.g.cfg, l.g.links.pinned, slices.Concat(p.To, p.From)); p.Where != want {
			l.t.Errorf("rank %d: a part that touches memory %d is marked %d", l.g.rank, want, p.Where)
		}
		l.seen[p.Where]++
	}
	return l.Set.Run(s, w, parts)
}

// TestBlocks checks that launches that touch memory of a peer or of the host are marked so: they get few blocks. Two
// ranks share each GPU, and not all GPUs read each other.
func TestBlocks(t *testing.T) {
	const ranks = 16
	plans := []*plan.Plan{mustPlan(t)(plan.Direct(plan.AllReduce, ranks, -1, plan.Split)),
		mustPlan(t)(plan.Direct(plan.AllGather, ranks, -1, plan.Single))}
	m := start(t, plans, how{slots: 4, slotBytes: 4096})
	var mu sync.Mutex
	seen := map[kernels.Where]int{}
	for r, g := range m.groups {
		g.executor.kernels = &launches{Set: m.loaded[m.devices[r]], t: t, g: g, mu: &mu, seen: seen}
	}
	m.run(mixture(plans, []int{1, 1000}, 1), 2)
	m.close()
	if len(seen) != 3 {
		t.Errorf("parts by memory: %v", seen)
	}
}
