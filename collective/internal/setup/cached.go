package setup

import (
	"cmp"
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
)

// cachedHost is the information that the first rank of a host has about the host.
type cachedHost struct {
	Member probe.Member    // of the network between hosts, where there are several
	Found  *probe.Findings // of the links within it by an earlier job; nil: none, or one rank
}

// Between describes, for a communicator of several hosts, how its graph is known.
type Between struct {
	Network *network.Network
	Unused  string // why the network kept by earlier jobs was not used, on rank 0; "" where that is expected
}

// Text is for users; now is the time, in seconds since 1970.
func (b *Between) Text(now int64) string {
	text := b.Network.Text(now)
	if b.Unused != "" {
		text += b.Unused + "\n"
	}
	return text
}

// The values assumed for hosts that were not measured and may not be measured: 10 Gbit/s Ethernet.
const (
	declaredRate    = 1.25 // GB/s
	declaredLatency = 30.0 // us
)

// Refresh is the value of the setting no-topo-cache with which measurements are
// kept, though none of earlier jobs is taken.
const Refresh = "refresh"

// hostsGraph returns the graph of ranks on several hosts: the links of each host, and the network between them, as an
// earlier job has measured them, or as this one measures them now.
func (s *setup) hostsGraph(by allGather, cache *probe.Cache, all []hello) (*topo.Graph, error) {
	if _, known := networkOf(s.World); !known {
		return nil, errNotNetworked
	}
	effort, err := network.ParseEffort(cmp.Or(s.World.Setting("probe"), string(network.Quick)))
	if err != nil {
		return nil, fmt.Errorf("%w: --probe: %w", ErrArgument, err)
	}
	hosts := HostsOf(s.World)
	firsts := firstRanks(hosts)
	members := make([]probe.Member, len(firsts))
	for h, r := range firsts {
		members[h] = all[r].Host.Member
	}
	var graphs []*topo.Graph
	s.Between = new(Between)
	if err := together(s.ctx, s.Size, by, func(g allGather) (err error) {
		graphs, err = s.withinHosts(g, cache, hosts, all)
		return err
	}, func(g allGather) (err error) {
		s.Between.Network, s.Between.Unused, err = s.betweenHosts(g, cache, hosts, members, effort)
		return err
	}); err != nil {
		return nil, err
	}
	g, err := network.Graph(hosts, linksOf(hosts, graphs), s.Between.Network)
	if err != nil {
		return nil, err
	}
	return s.equalized(g), nil
}

// cachedHost returns the information that this rank reports about its host, if it is the first rank there and the graph
// is not given.
func (s *setup) cachedHost(cache *probe.Cache) (mine cachedHost) {
	hosts := HostsOf(s.World)
	members := neighbours(hosts, s.Rank)
	if members[0] != s.Rank || s.Config.Graph != nil {
		return mine
	}
	if n, known := networkOf(s.World); known && !OneHost(hosts) {
		addrs := n.ListenAddrs()
		mine.Member = probe.Member{Name: n.HostName(s.Rank), Identity: probe.Identity(addrs),
			Facts: iface.Facts(addrs)}
	}
	if cache == nil || len(members) == 1 || s.World.Setting("no-topo-cache") == Refresh {
		return mine
	}
	// A broken or foreign file is measured over.
	mine.Found, _ = cache.Load(cache.Path(len(members), s.cores), len(members))
	return mine
}

// withinHosts returns the graph of every host: all as they were kept or, where one
// is not, all measured.
func (s *setup) withinHosts(by allGather, cache *probe.Cache, hosts []int, all []hello) ([]*topo.Graph, error) {
	firsts, sizes := firstRanks(hosts), numbers.GroupSizes(hosts)
	found, unknown := make([]*probe.Findings, len(firsts)), false
	for h, r := range firsts {
		found[h] = all[r].Host.Found
		if sizes[r] == 1 {
			found[h] = &probe.Findings{Places: make([]probe.Place, 1)}
		}
		unknown = unknown || found[h] == nil || len(found[h].Places) != sizes[r]
	}
	if unknown {
		var err error
		if found, err = s.measure(by, hosts); err != nil {
			return nil, err
		}
	}
	graphs := make([]*topo.Graph, len(firsts))
	for h, r := range firsts {
		graphs[h] = found[h].Graph()
		if unknown && r == s.Rank && cache != nil && sizes[r] > 1 {
			// the next job measures again when it could not be kept
			_ = cache.Store(cache.Path(sizes[r], s.cores), found[h])
		}
	}
	return graphs, nil
}

// betweenHosts returns the network between hosts, the same on all ranks, and on rank 0 the reason why the network kept
// by earlier jobs was not used.
func (s *setup) betweenHosts(g allGather, cache *probe.Cache, hosts []int, members []probe.Member,
	effort network.Effort) (n *network.Network, unused string, err error) {
	file := ""
	var mine *network.Network
	if s.Rank == 0 && cache != nil {
		file = cache.NetworkPath(members)
	}
	if file != "" {
		mine, unused = s.cachedNetwork(cache, file, members, effort)
	}
	all, err := strict.Swap(s.ctx, g, s.Size, nil, mine, nil)
	if err != nil {
		return nil, "", fmt.Errorf("hearing of the network that rank 0 has kept: %w", err)
	}
	names := make([]string, len(members))
	for h, m := range members {
		names[h] = m.Name
	}
	switch n = all[0]; {
	case n != nil:
		if err = n.Validate(); err == nil && len(n.Hosts) != len(names) {
			err = fmt.Errorf("it has %d hosts, the job %d", len(n.Hosts), len(names))
		}
		if err != nil {
			return nil, "", fmt.Errorf("network from rank 0: %w", err)
		}
		n.Hosts = names
		return n, "", nil
	case effort == network.Off:
		return network.Declared(names, declaredRate, declaredLatency), unused, nil
	}
	n, err = s.measureNetwork(g, hosts, names, effort)
	if err == nil && file != "" {
		_ = cache.StoreNetwork(file, members, n) // the next job measures again when it could not be kept
	}
	return n, unused, err
}

// cachedNetwork returns the network in file, nil where it cannot be used, and the reason. Where the cache is to be
// refreshed, the reason is the change since then, if any.
func (s *setup) cachedNetwork(cache *probe.Cache, file string, members []probe.Member, effort network.Effort,
) (*network.Network, string) {
	anew := s.World.Setting("no-topo-cache") == Refresh
	if anew {
		effort = network.Off // any network in the file
	}
	n, unused, err := cache.LoadNetwork(file, members, effort, time.Now())
	switch {
	case err != nil:
		return nil, fmt.Sprintf("what was measured earlier cannot be read: %v", err) // it is measured over
	case anew:
		return nil, unused
	}
	return n, unused
}
