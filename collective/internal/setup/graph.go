package setup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
)

// graph is a graph that is made when it is needed: of a host with hundreds of ranks it has tens of thousands of links,
// and where these are uniform hardly any rank needs them.
type graph struct {
	ranks   int
	uniform bool
	full    func() *topo.Graph
}

func whole(g *topo.Graph) graph {
	return graph{ranks: g.Ranks, full: func() *topo.Graph { return g }}
}

// graphOf returns the graph of the findings of a host.
func graphOf(f *probe.Findings) graph {
	return graph{len(f.Places), f.IsUniform(), sync.OnceValue(f.Graph)}
}

// among returns the part of g between some of its ranks, which are numbered in this order.
func (g graph) among(members []int) graph {
	return graph{len(members), g.uniform, sync.OnceValue(func() *topo.Graph { return g.full().Among(members) })}
}

// knows reports whether the graph is that of an earlier epoch.
func (a *agreement) knows() bool { return a.known != nil && a.known.Known.measured() }

// graph returns the same graph on all ranks: the caller's, that of an earlier epoch or an earlier job, or a measured
// one, which is fresh.
func (s *setup) graph(by allGather, a agreement) (g graph, between *Between, fresh *knowledge, err error) {
	switch given := s.config.Graph; {
	case given != nil:
		if given.Ranks != s.size {
			return g, nil, nil, fmt.Errorf("%w: the graph has %d ranks, the job %d", ErrArgument, given.Ranks, s.size)
		}
		err := given.Validate()
		if err == nil && s.rank == 0 {
			s.config.Note(otherHosts(given, s.hosts))
		}
		return whole(given), nil, nil, err
	case s.size == 1:
		return whole(topo.UniformGraph(1)), nil, nil, nil
	case a.knows():
		g, between = a.known.Known.graph(a.known.Known.among(s.world))
		return g, between, nil, nil
	}
	measured := s.measuring()
	if OneHost(s.hosts) {
		var found []*probe.Findings
		if found, err = s.withinHosts(by, a); err == nil {
			g, fresh = graphOf(found[0]), &knowledge{Found: found[0]}
		}
	} else {
		var all *topo.Graph
		if all, between, err = s.hostsGraph(by, a); err == nil {
			g, fresh = whole(all), &knowledge{Graph: all, Network: between.Network}
		}
	}
	measured()
	if err != nil {
		return g, nil, nil, fmt.Errorf("measuring the links: %w", err)
	}
	return g, between, fresh, nil
}

// otherHosts returns a notice that a given graph has the ranks on other hosts than the job, which may be intended; ""
// where it has not. hosts are those of the job's ranks.
func otherHosts(given *topo.Graph, hosts []int) string {
	theirs, own := given.ByHost(), (&topo.Graph{Ranks: len(hosts), Hosts: hosts}).ByHost()
	if slices.EqualFunc(theirs, own, slices.Equal) {
		return ""
	}
	return fmt.Sprintf("treerun: the ranks of the given graph are on %d hosts, those of the job on %d, "+
		"not the same ones: plans are made for the graph\n", len(theirs), len(own))
}

// hostsGraph returns the graph of ranks on several hosts: the links of each host, and the network between them, as an
// earlier job has measured them, or as this one measures them now.
func (s *setup) hostsGraph(by allGather, a agreement) (*topo.Graph, *Between, error) {
	if _, known := networkOf(s.world); !known {
		return nil, nil, errNotNetworked
	}
	effort, err := network.ParseEffort(cmp.Or(s.world.Setting("probe"), string(network.Quick)))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: --probe: %w", ErrArgument, err)
	}
	within, between := together(s.ctx, s.size, by, func(g allGather) ([]*probe.Findings, error) {
		return s.withinHosts(g, a)
	}, func(g allGather) (*Between, error) {
		return s.betweenHosts(g, a, effort)
	})
	if err := errors.Join(within.err, between.err); err != nil {
		return nil, nil, err
	}
	g, err := network.Graph(s.hosts, linksOf(s.hosts, within.value), between.value.Network)
	if err != nil {
		return nil, nil, err
	}
	return a.equalized(g), between.value, nil
}
