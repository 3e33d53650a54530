package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// TreeSet is trees that take time to find, by the name under which a Planner keeps them.
// Rates is nil where they get equal shares.
type TreeSet struct {
	Key   string
	Trees []topo.Tree
	Rates []float64
	Note  string
}

// treeSets are the TreeSets that were found so far, by this rank or by the one whose decision it follows.
type treeSets struct {
	byKey   map[string]*TreeSet
	noRings error // why there are none
}

// get returns trees of n vertices that were found before, or that search finds now.
func (t *treeSets) get(key string, n int, search func() (*TreeSet, error)) (*TreeSet, error) {
	if f, ok := t.byKey[key]; ok {
		if have := len(f.Trees[0].Parent); have != n {
			return nil, fmt.Errorf("trees %q have %d vertices, want %d", key, have, n)
		}
		return f, nil
	}
	f, err := search()
	if err == nil {
		f.Key, t.byKey[key] = key, f
	}
	return f, err
}

// ofRoots is get for trees of which there is one for every root, in order.
func (t *treeSets) ofRoots(key string, n int, search func() (*TreeSet, error)) (*TreeSet, error) {
	f, err := t.get(key, n, search)
	if err != nil {
		return nil, err
	}
	for i, t := range f.Trees {
		if t.Root != i || len(f.Trees) != n {
			return nil, fmt.Errorf("tree %d of %d for %d roots is of root %d", i, len(f.Trees), n, t.Root)
		}
	}
	return f, nil
}

// weight is the weight of tree i.
func (f *TreeSet) weight(i int) float64 {
	if f.Rates == nil {
		return 1
	}
	return f.Rates[i]
}

// check reports trees of another rank's decision from which no plan can be made.
func (f *TreeSet) check() error {
	if len(f.Trees) == 0 || len(f.Trees) > plan.MaxLanes || len(f.Rates) != 0 && len(f.Rates) != len(f.Trees) {
		return fmt.Errorf("%d trees with %d rates", len(f.Trees), len(f.Rates))
	}
	for _, t := range f.Trees {
		if err := t.Validate(len(f.Trees[0].Parent)); err != nil {
			return err
		}
	}
	for _, rate := range f.Rates {
		if !(rate > 0 && rate < math.MaxFloat64) {
			return fmt.Errorf("rate %v", rate)
		}
	}
	return nil
}
