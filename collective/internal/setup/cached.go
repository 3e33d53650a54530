package setup

import (
	"fmt"
	"time"

	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/numbers"
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

// cachedHost returns the information that this rank reports about its host, if it is the first rank there and the graph
// is not given.
func (s *setup) cachedHost() (mine cachedHost) {
	members := neighbors(s.hosts, s.rank)
	if members[0] != s.rank || s.config.Graph != nil {
		return mine
	}
	if n, known := networkOf(s.world); known && !OneHost(s.hosts) {
		addrs := n.ListenAddrs()
		mine.Member = probe.Member{Name: n.HostName(s.rank), Identity: probe.Identity(addrs),
			Facts: iface.Facts(addrs)}
	}
	known := s.memory != nil && s.memory.Known.measured()
	if s.cache == nil || len(members) == 1 || known || s.world.Setting("no-topo-cache") == Refresh {
		return mine
	}
	// A broken or foreign file is measured over, and so is what another job has measured on a machine that was too busy.
	found, _ := s.cache.Load(s.cache.Path(len(members), s.config.Cores), len(members))
	if found != nil && found.Credible(s.config.Cores) {
		mine.Found = found
	}
	return mine
}

// withinHosts returns the findings about every host: all as they were kept or, where one
// is not, all measured.
func (s *setup) withinHosts(by allGather, a agreement) ([]*probe.Findings, error) {
	firsts, sizes := firstRanks(s.hosts), numbers.GroupSizes(s.hosts)
	found, unknown := make([]*probe.Findings, len(firsts)), false
	for h, r := range firsts {
		found[h] = a.cached[r].Found
		if sizes[r] == 1 {
			found[h] = &probe.Findings{Places: make([]probe.Place, 1)}
		}
		unknown = unknown || found[h] == nil || len(found[h].Places) != sizes[r]
	}
	if unknown {
		var err error
		if found, err = s.measure(by, a); err != nil {
			return nil, err
		}
	}
	for h, r := range firsts {
		if unknown && r == s.rank && s.cache != nil && sizes[r] > 1 {
			// the next job measures again when it could not be kept
			_ = s.cache.Store(s.cache.Path(sizes[r], s.config.Cores), found[h])
		}
	}
	return found, nil
}

// betweenHosts returns the network between hosts, the same on all ranks, and on rank 0 the reason why the network kept
// by earlier jobs was not used.
func (s *setup) betweenHosts(g allGather, a agreement, effort network.Effort) (*Between, error) {
	var members []probe.Member
	var names []string
	for _, r := range firstRanks(s.hosts) {
		m := a.cached[r].Member
		members, names = append(members, m), append(names, m.Name)
	}
	var file, unused string
	var mine *network.Network
	if s.rank == 0 && s.cache != nil {
		file = s.cache.NetworkPath(members)
	}
	if file != "" {
		mine, unused = s.cachedNetwork(file, members, effort)
	}
	all, err := agree.Exchange(s.ctx, g, s.size, nil, mine, nil)
	if err != nil {
		return nil, fmt.Errorf("receiving the network that rank 0 has cached: %w", err)
	}
	switch n := all[0]; {
	case n != nil:
		if err = n.Validate(); err == nil && len(n.Hosts) != len(names) {
			err = fmt.Errorf("it has %d hosts, the job %d", len(n.Hosts), len(names))
		}
		if err != nil {
			return nil, fmt.Errorf("network from rank 0: %w", err)
		}
		n.Hosts = names
		return &Between{Network: n}, nil
	case effort == network.Off:
		return &Between{network.Declared(names, declaredRate, declaredLatency), unused}, nil
	}
	n, _, err := s.measureNetwork(g, names, effort, network.Turns(len(names), effort), a.oneMachine(),
		new(network.Findings))
	if err == nil && file != "" {
		_ = s.cache.StoreNetwork(file, members, n) // the next job measures again when it could not be kept
	}
	return &Between{n, unused}, err
}

// cachedNetwork returns the network in file, nil where it cannot be used, and the reason. Where the cache is to be
// refreshed, the reason is the change since then, if any.
func (s *setup) cachedNetwork(file string, members []probe.Member, effort network.Effort) (*network.Network, string) {
	anew := s.world.Setting("no-topo-cache") == Refresh
	if anew {
		effort = network.Off // any network in the file
	}
	n, unused, err := s.cache.LoadNetwork(file, members, effort, time.Now())
	switch {
	case err != nil:
		return nil, fmt.Sprintf("the earlier measurement cannot be read: %v", err) // it is measured over
	case anew:
		return nil, unused
	}
	return n, unused
}
