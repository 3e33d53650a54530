package collective

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
)

// keptHost is what the first rank of a host knows of it.
type keptHost struct {
	Name     string
	Identity string // for the network between hosts
	Graph    []byte // of the host's ranks, from an earlier job; empty: none, or one rank
	At       int64  // when that was measured, in seconds since 1970
}

// Between says, for a communicator of several hosts, how its graph is known.
type Between struct {
	Network *network.Network
	Within  []int64 // by host: when the links of its ranks were measured, in seconds since 1970; 0: it has one
}

// What is taken of hosts that nobody has measured nor may measure: 10 Gbit/s
// Ethernet.
const (
	declaredRate    = 1.25 // GB/s
	declaredLatency = 30.0 // us
)

// refresh is the value of the setting no-topo-cache with which measurements are
// kept, though none of earlier jobs is taken.
const refresh = "refresh"

// hostsGraph returns the graph of ranks on several hosts: of each host, and of the
// network between them, what an earlier job has measured, or now measures itself.
func (s *setup) hostsGraph(cache *probe.Cache) (*topo.Graph, error) {
	known, ok := s.w.(Networked)
	if !ok {
		return nil, errNotNetworked
	}
	effort, err := network.ParseEffort(cmp.Or(s.w.Setting("probe"), network.Quick.String()))
	if err != nil {
		return nil, fmt.Errorf("%w: --probe: %w", ErrArgument, err)
	}
	hosts := hostsOf(s.w)
	all, err := exchange(s.ctx, s.w, s.keptHost(cache, hosts, known))
	if err != nil {
		return nil, fmt.Errorf("what hosts know: %w", err)
	}
	firsts := firstRanks(hosts)
	within := Between{Within: make([]int64, len(firsts))}
	names, identities := make([]string, len(firsts)), make([]string, len(firsts))
	for h, r := range firsts {
		names[h], identities[h], within.Within[h] = all[r].Name, all[r].Identity, all[r].At
	}
	graphs, err := s.withinHosts(cache, hosts, all, within.Within)
	if err != nil {
		return nil, err
	}
	if within.Network, err = s.betweenHosts(cache, hosts, names, identities, effort); err != nil {
		return nil, err
	}
	s.between = &within
	return network.Graph(hosts, linksOf(hosts, graphs), within.Network)
}

// keptHost is what this rank tells of its host.
func (s *setup) keptHost(cache *probe.Cache, hosts []int, known Networked) keptHost {
	members := neighbours(hosts, s.w.Rank())
	if members[0] != s.w.Rank() {
		return keptHost{}
	}
	mine := keptHost{Name: known.HostName(s.w.Rank()), Identity: probe.Identity(known.ListenAddrs())}
	if cache == nil || len(members) == 1 || s.w.Setting("no-topo-cache") == refresh {
		return mine
	}
	file := cache.Path(len(members), s.cores)
	g, err := cache.Load(file, len(members))
	if err != nil || g == nil {
		return mine // a broken file is measured over
	}
	if mine.Graph, err = g.AppendJSON(nil); err != nil {
		return mine
	}
	mine.At = cache.Stored(file).Unix()
	return mine
}

// withinHosts returns the graph of every host: all as they were kept or, where one
// is not, all measured.
func (s *setup) withinHosts(cache *probe.Cache, hosts []int, kept []keptHost, at []int64) ([]*topo.Graph, error) {
	firsts := firstRanks(hosts)
	var graphs []*topo.Graph
	for _, r := range firsts {
		members := neighbours(hosts, r)
		g := topo.UniformGraph(1)
		if len(members) > 1 {
			var err error
			if g, err = topo.ParseGraph(kept[r].Graph); err != nil || g.Ranks != len(members) {
				break // not kept
			}
		}
		graphs = append(graphs, g)
	}
	if len(graphs) == len(firsts) {
		return graphs, nil
	}
	pairs, err := s.measureHost(hosts)
	if err != nil {
		return nil, err
	}
	all, err := exchange(s.ctx, s.w, pairs)
	if err != nil {
		return nil, err
	}
	graphs = graphsWithin(hosts, all)
	for h, r := range firsts {
		members := neighbours(hosts, r)
		if at[h] = 0; len(members) > 1 {
			at[h] = time.Now().Unix()
		}
		if r == s.w.Rank() && cache != nil && len(members) > 1 && measured(graphs[h]) {
			_ = cache.Store(cache.Path(len(members), s.cores), graphs[h]) // the next job measures again when it could not be kept
		}
	}
	return graphs, nil
}

func measured(g *topo.Graph) bool {
	return !slices.ContainsFunc(g.Links, func(l topo.Link) bool { return l.Source != topo.Measured })
}

// betweenHosts returns the network between hosts, the same on all ranks.
func (s *setup) betweenHosts(cache *probe.Cache, hosts []int, names, identities []string, effort network.Effort) (*network.Network, error) {
	file := ""
	var blob []byte
	if s.w.Rank() == 0 && cache != nil {
		file = cache.NetworkPath(identities)
	}
	if file != "" && s.w.Setting("no-topo-cache") != refresh {
		// A broken or foreign file is measured over.
		if n, err := cache.LoadNetwork(file, identities, effort, time.Now()); err == nil && n != nil {
			if blob, err = n.AppendJSON(nil); err != nil {
				return nil, err
			}
		}
	}
	all, err := exchange(s.ctx, s.w, blob)
	if err != nil {
		return nil, fmt.Errorf("hearing of the network that rank 0 has kept: %w", err)
	}
	switch {
	case len(all[0]) > 0:
		n, err := network.Parse(all[0])
		if err == nil && len(n.Hosts) != len(names) {
			err = fmt.Errorf("it has %d hosts, the job %d", len(n.Hosts), len(names))
		}
		if err != nil {
			return nil, fmt.Errorf("network from rank 0: %w", err)
		}
		n.Hosts = names
		return n, nil
	case effort == network.Off:
		return network.Declared(names, declaredRate, declaredLatency), nil
	}
	n, err := s.measureNetwork(hosts, names, effort)
	if err == nil && file != "" {
		_ = cache.StoreNetwork(file, identities, n) // the next job measures again when it could not be kept
	}
	return n, err
}
