package collective

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// decided returns the sets of trees that rank 0 found, for the others.
func (h *hosts) decided() []decidedSet {
	if h == nil {
		return nil
	}
	var list []decidedSet
	for _, k := range h.keys() {
		d := decidedSet{Shape: k.shape.String(), Of: int(k.of), Root: k.root, Weights: h.sets[k].weights}
		for _, t := range h.sets[k].trees {
			d.Parents = append(d.Parents, t.Parent...)
		}
		list = append(list, d)
	}
	return list
}

// keys returns the names of the sets in their order.
func (h *hosts) keys() []setKey {
	return slices.SortedFunc(maps.Keys(h.sets), func(a, b setKey) int {
		return slices.Compare([]int{int(a.shape), int(a.of), a.root}, []int{int(b.shape), int(b.of), b.root})
	})
}

// take takes over the sets that rank 0 found, checked.
func (h *hosts) take(sets []decidedSet) error {
	n := len(h.ranks)
	for i, d := range sets {
		s, ok := shapeOf(d.Shape)
		k := setKey{s, setKind(d.Of), d.Root}
		switch {
		case !ok || s != hostsDouble && s != hostsPacked:
			return fmt.Errorf("rank 0 decided on trees of shape %q", d.Shape)
		case d.Of < int(bothWays) || d.Of > int(ofParts) || (k.of == oneWay) != (d.Root >= 0) || d.Root >= n || h.has(k):
			return fmt.Errorf("rank 0 decided on trees of kind %d and root %d for %d hosts", d.Of, d.Root, n)
		case len(d.Parents) == 0 || len(d.Parents)%n != 0 || len(d.Parents)/n > plan.MaxLanes || len(d.Weights) > 0 && len(d.Weights) != len(d.Parents)/n:
			return fmt.Errorf("set %d of rank 0's decision has %d parents and %d weights for trees over %d hosts", i, len(d.Parents), len(d.Weights), n)
		}
		var set treeSet
		if len(d.Weights) > 0 {
			set.weights = d.Weights
		}
		rooted := make([]bool, n)
		for parents := range slices.Chunk(d.Parents, n) {
			one := topo.Tree{Root: slices.Index(parents, -1), Parent: parents}
			if err := one.Validate(n); err != nil {
				return fmt.Errorf("trees over hosts of rank 0's decision: %w", err)
			}
			if k.of == oneWay && one.Root != d.Root {
				return fmt.Errorf("trees over hosts of rank 0's decision have root %d, want %d", one.Root, d.Root)
			}
			rooted[one.Root] = true
			set.trees = append(set.trees, one)
		}
		if k.of == ofParts && slices.Contains(rooted, false) {
			return fmt.Errorf("set %d of rank 0's decision has no tree for some host's parts", i)
		}
		h.sets[k] = set
	}
	return nil
}

// digest writes all sets to w.
func (h *hosts) digest(w io.Writer) {
	if h == nil {
		return
	}
	for _, k := range h.keys() {
		fmt.Fprintln(w, k, h.sets[k].trees, h.sets[k].weights)
	}
}
