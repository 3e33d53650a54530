package collective

import (
	"math"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Where ranks share cores rank 0 leaves a Barrier first, and elsewhere nobody
// stands between two ranks; a small Reduce goes straight to its root.
func TestChoiceOnSharedCores(t *testing.T) {
	for _, c := range []struct {
		ranks, cores int
		want         shape
	}{{2, 2, flat}, {4, 4, flat}, {3, 2, starShape}, {4, 2, starShape}, {8, 2, starShape}, {16, 4, starShape}, {directRanks + 1, 2, oneTree}} {
		cfg := defaults()
		cfg.cores = c.cores
		p, err := newPlanner(topo.UniformGraph(c.ranks), 0, &cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.choices[plan.Barrier]; len(got) != 1 || got[0].shape != c.want || got[0].below != math.MaxInt {
			t.Errorf("%d ranks on %d cores: Barrier is %s, want %s", c.ranks, c.cores, choicesText(got), c.want)
		}
		if name, us := p.choice(plan.Reduce, 8); c.ranks <= directRanks && name != "star" || !(us > 0) {
			t.Errorf("%d ranks on %d cores: Reduce of 8 bytes is %s in %v us, want star", c.ranks, c.cores, name, us)
		}
	}
}

// The same holds for hosts that are one machine, whose ranks share its cores; with
// a machine for each host what a Barrier takes by itself counts.
func TestChoiceOfHostsOnOneMachine(t *testing.T) {
	for _, c := range []struct {
		boxes []int
		cores int
		star  bool
	}{{[]int{0, 0, 0, 0}, 2, true}, {[]int{0, 0, 0, 0}, 4, false}, {[]int{0, 0, 0, 1}, 2, false}, {[]int{0, 1, 2, 3}, 2, false}} {
		cfg := defaults()
		cfg.cores, cfg.boxes = c.cores, c.boxes
		p, err := newPlanner(evenNet(4, 1), 0, &cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.choices[plan.Barrier]; (got[0].shape == starShape) != c.star || len(got) != 1 {
			t.Errorf("boxes %v of %d cores: Barrier is %s", c.boxes, c.cores, choicesText(got))
		}
		d := p.decision()
		q, err := newPlanner(evenNet(4, 1), 1, &cfg, &d)
		if err != nil || q.choices[plan.Barrier][0].shape != p.choices[plan.Barrier][0].shape {
			t.Errorf("boxes %v of %d cores: rank 1 does not follow: %v", c.boxes, c.cores, err)
		}
	}
}
