package planner

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo/tree"
)

// searchedRanks is up to how many ranks of one host the trees of kl, rings and chains
// are made and priced without being asked for.
const searchedRanks = 16

// kl is one tree per root by the method of Kernighan and Lin, as in MXNet: made one
// after the other, each use of a link making it less attractive to later trees.
func (p *Planner) kl(kind plan.Kind, root int) ([]*Candidate, error) {
	if err := p.searched("kl", kind, searchedRanks); err != nil {
		return nil, err
	}
	return p.ofRoots("kl", kind, root)
}

// penalty is the factor on a link's rate each time a tree of kl uses it.
func (p *Planner) penalty() float64 {
	if p.options.Penalty == 0 {
		return tree.LinkUsagePenalty
	}
	return p.options.Penalty
}

// searched reports why an algorithm that searches for trees over single ranks is not
// tried.
func (p *Planner) searched(name string, kind plan.Kind, most int) error {
	n := p.graph.Ranks
	switch {
	case p.ordered(kind):
		return unordered()
	case pairwise(kind):
		return because("data goes from rank to rank")
	case p.asked(name):
		return nil
	case kind == plan.Barrier:
		return because("a barrier carries no data")
	case p.uniform:
		return because("all links are alike")
	case !p.machine.Device && p.apart == nil:
		return because("cores copy here, and they are the limit, not the links: it lost by price wherever it was tried")
	case p.hosts != nil && (name != "packing" || p.hosts.alone()):
		return because("ranks are on several hosts: see hierarchical")
	}
	if p.machine.Device && name != "packing" {
		most = min(most, rootedRanks) // plans of all roots are laid out when devices open
	}
	if n > most {
		return because("not tried above %d ranks for the time that it takes: --algorithm %s does", most, name)
	}
	return nil
}
