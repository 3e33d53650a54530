package collective

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
)

// localAlgorithms are the algorithms that tests run on one host; the first ones run with links of every size.
var localAlgorithms = []string{
	"flat", "multi:one", "multi:all", "direct:single", "direct:split", "star",
	"packing", "ring:all", "chain", "doubling", "double-binary",
}

const firstAlgorithms = 6

// hostsAlgorithms are the algorithms that tests run on several hosts.
var hostsAlgorithms = []string{
	"hierarchical:star/flat", "hierarchical:star/doubling", "hierarchical:star/star", "hierarchical:star/direct",
	"hierarchical:star/double-binary", "hierarchical:star/packing",
	"hierarchical:kl/packing", "hierarchical:multi/direct", "hierarchical:exact/double-binary",
	"hierarchical:packing/packing",
}

// fits reports whether kind runs by an algorithm on g.
func fits(name string, kind plan.Kind, g *topo.Graph) bool {
	key := fmt.Sprint(name, kind, g.Digest())
	if known, ok := fitting.Load(key); ok {
		return known.(bool)
	}
	p, err := planner.New(g, planner.Machine{}, planner.Options{Algorithm: name})
	found := err == nil && slices.ContainsFunc(p.CandidateNames(kind),
		func(n string) bool { return n == name || strings.HasPrefix(n, name+":") })
	fitting.Store(key, found)
	return found
}

var fitting sync.Map // results of fits

// seedOf derives a seed from a name.
func seedOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}
