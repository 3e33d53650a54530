package setup

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// Where what was found is not possible, links are measured again: up to this number of times in all, and not after this
// time. A measurement that takes 50 ms on a quiet machine can take some seconds on a busy one.
const (
	attempts  = 4
	remeasure = 3 * time.Second
)

// measured is a rank's measurement of its links.
type measured struct {
	Pairs []probe.Pair
	Spent time.Duration // since it began to
}

// measure probes the links within every host, and gives every rank the same findings, by host. Where other work of the
// machine has left nothing credible, it probes again, but not for long: this job goes on with what there is.
func (s *setup) measure(g allGather, a agreement) ([]*probe.Findings, error) {
	found := make([]*probe.Findings, len(firstRanks(s.hosts)))
	for h := range found {
		found[h] = new(probe.Findings)
	}
	for r, h := range s.hosts {
		found[h].Places = append(found[h].Places, a.places[r])
	}
	if a.oneMachine() { // hosts with the same number of ranks have the same links: one measurement holds for all
		for h, f := range found {
			like := func(o *probe.Findings) bool { return slices.Equal(o.Places, f.Places) }
			found[h] = found[slices.IndexFunc(found, like)]
		}
	}
	var pairs [][2]int
	if own := s.hosts[s.rank]; slices.Index(found, found[own]) == own {
		pairs = probe.NewSampling(found[own].Places).Pairs()
	}
	doubtful := func(f *probe.Findings) bool { return !f.Credible(a.cores) }
	begin, spent := time.Now(), time.Duration(0) // of rank 0, so that all decide the same
	for n := 0; n == 0 || n < attempts && spent < remeasure && slices.ContainsFunc(found, doubtful); n++ {
		mine, err := s.measureHost(g, pairs)
		if err != nil {
			return nil, err
		}
		all, err := agree.Exchange(s.ctx, g, s.size, nil, measured{mine, time.Since(begin)}, nil)
		if err != nil {
			return nil, err
		}
		for r, m := range all {
			found[s.hosts[r]].Add(m.Pairs)
		}
		spent = all[0].Spent
	}
	return found, nil
}

// measureHost probes the links of these pairs of ranks of its host, by their numbers there. Only these ranks open
// links for that; the others take part in the AllGathers.
func (s *setup) measureHost(g allGather, pairs [][2]int) (found []probe.Pair, err error) {
	own := neighbors(s.hosts, s.rank)
	among, members := make([][2]int, len(pairs)), make([]int, 0, 2*len(pairs))
	for i, p := range pairs {
		among[i] = [2]int{own[p[0]], own[p[1]]}
		members = append(members, among[i][:]...)
	}
	slices.Sort(members)
	members = slices.Compact(members)
	ep, err := s.connectProbe(g, members)
	if ep == nil {
		return nil, err
	}
	defer ep.Close()
	cores := s.crowded()
	pin := func(k int) (func(), error) { return shm.PinThread(k, cores) }
	if slices.Contains(members, s.rank) {
		found, err = probe.Measure(s.ctx, ep, s.rank, s.size, s.config.Cores, among, pin)
	}
	for i := range found {
		p := &found[i]
		p.A, p.B = slices.Index(own, p.A), slices.Index(own, p.B)
	}
	return found, err
}

// connectProbe joins members, which are of one host, for a measurement; nil for ranks that are none.
func (s *setup) connectProbe(g allGather, members []int) (transport.Endpoint, error) {
	layout := transport.Layout{Size: s.size, Slots: probe.Slots, SlotBytes: probe.SlotBytes}
	if slices.Contains(members, s.rank) {
		return endpoint(connectHost(s.ctx, s.world, g, purposeProbe, layout, members, false))
	}
	for range shmGathers {
		if _, err := gatherAmong(members, g)(s.ctx, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// place is where this rank runs: nowhere in particular where ranks share cores, or nothing is measured.
func (s *setup) place() probe.Place {
	if s.crowded() != nil || s.config.Graph != nil || s.size == 1 {
		return probe.Place{}
	}
	return probe.Here()
}

func (s *setup) crowded() []int {
	return crowded(s.world.Setting("cpus"), len(neighbors(s.hosts, s.rank)))
}

// crowded returns the cores of a host among which its ranks are bound, as the launcher's setting lists them, where
// several have to share one; else nil. A rank that keeps to a core of its own measures its links from there. Two that
// share one cannot: they would measure how long the kernel leaves a core to either.
func crowded(setting string, ranks int) []int {
	if cores := coreList(setting); len(cores) < ranks {
		return cores
	}
	return nil
}

// coreList returns the cores that a setting lists, nil for none.
func coreList(setting string) (cores []int) {
	for text := range strings.SplitSeq(setting, ",") {
		cpu, err := strconv.Atoi(text)
		if err != nil || cpu < 0 || cpu >= maxCPUs || len(cores) == maxCPUs {
			return nil
		}
		cores = append(cores, cpu)
	}
	return cores
}

const maxCPUs = 1024 // that fit into a set of the kernel's

// lendGains returns the gains of lending, the same on all ranks of one host: those of an earlier epoch of the job, or
// those of now. It returns nil on several hosts, and where they are not wanted.
func (s *setup) lendGains(ep transport.Endpoint, lane int, a agreement) (*probe.Gains, error) {
	switch {
	case !s.config.TryLending || lane < 0 || !OneHost(s.hosts) || s.size == 1:
		return nil, nil
	case a.known != nil && a.known.Known.Gains != nil:
		return a.known.Known.Gains, nil
	}
	defer s.measuring()()
	gains, err := probe.Lending(s.ctx, ep, lane, s.rank, s.size)
	return &gains, err
}

// lendFrom returns the size, in bytes, from which messages are read from their sender's own memory. That takes one
// system call for any size, and slots take their time by the byte: it pays from where both take as long. Nothing is
// measured for a job on several hosts: there it is a size from which it has paid on all machines that were tried.
func lendFrom(gain float64, severalHosts bool) int64 {
	switch {
	case gain == 0 && severalHosts:
		return 2 * probe.LendBytes
	case gain == 0:
		return minLent
	}
	return max(minLent, int64(float64(probe.LendBytes)/gain))
}

// reachesAny reports whether this rank reads the memory of some other rank, and if not, why.
func reachesAny(ep transport.Endpoint, rank, size int) (ok bool, why string) {
	for r := 0; r < size && !ok && why == ""; r++ {
		if r != rank {
			ok, why = ep.Reaches(r)
		}
	}
	return ok, why
}

// minLent is the size, in bytes, below which lending never pays, for any measured gain.
const minLent = 8 << 10

// linksOf gives the links within hosts the ranks' numbers in the job.
func linksOf(hosts []int, found []*probe.Findings) []topo.Link {
	var links []topo.Link
	for h, first := range firstRanks(hosts) {
		members := neighbors(hosts, first)
		for _, l := range found[h].Graph().Links {
			l.A, l.B = members[l.A], members[l.B]
			links = append(links, l)
		}
	}
	return links
}

// networkReport has the findings of one host about the others.
type networkReport struct {
	Found *network.Findings
	At    int64 // seconds since 1970
}

// measureNetwork probes the ways between hosts of these names, by these turns, and returns all that was found, with
// what is known. The first rank of each host takes part. Where all are on one machine, a sample may show that nothing
// but its memory limits them: then all are equal.
func (s *setup) measureNetwork(g allGather, names []string, effort network.Effort, turns []network.Turn, sampled bool,
	known *network.Findings) (n *network.Network, all *network.Findings, err error) {
	var at int64
	slow := func(f network.Flow) bool { return f.Middle() < levelFrom }
	sample := network.Sample(len(names))
	if sampled = sampled && len(sample) > 0; sampled {
		all, at, err = s.findings(g, effort, sample, levelFrom)
	}
	if !sampled || err == nil && slices.ContainsFunc(all.Flows, slow) {
		all, at, err = s.findings(g, effort, turns, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	all.Add(known)
	if n, err = network.Infer(names, all); err != nil {
		return nil, nil, err
	}
	n.Probe, n.At = string(effort), at
	return n, all, nil
}

// findings probes by these turns, and returns the findings of all hosts, and rank 0's time.
func (s *setup) findings(g allGather, effort network.Effort, turns []network.Turn, ample float64,
) (all *network.Findings, at int64, err error) {
	found, err := s.probeNetwork(g, effort, turns, ample)
	reports, err := agree.Exchange(s.ctx, g, s.size, nil, networkReport{found, time.Now().Unix()}, err)
	if err != nil {
		return nil, 0, err
	}
	all = &network.Findings{}
	for _, report := range reports {
		if report.Found != nil {
			all.Add(report.Found)
		}
	}
	return all, reports[0].At, nil
}

// probeNetwork is this rank's part in the measurement between hosts, nil
// findings for ranks that have none.
func (s *setup) probeNetwork(g allGather, effort network.Effort, turns []network.Turn, ample float64,
) (*network.Findings, error) {
	hosts, firsts := s.hosts, firstRanks(s.hosts)
	meets, host := network.Meets(turns), hosts[s.rank]
	first := firsts[host] == s.rank
	cfg, err := networkConfig(s.world, g, purposeProbe)
	if err != nil {
		return nil, err
	}
	cfg.Encrypt = false
	cfg.Peers = func(r int) bool { return first && firsts[hosts[r]] == r && meets(host, hosts[r]) }
	mesh, err := netconn.Connect(s.ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer mesh.Close()
	if !first {
		return nil, nil
	}
	return probe.Network(s.ctx, probe.NetworkConfig{
		Ample: ample, Turns: turns,
		Host: host, Hosts: len(firsts), Effort: effort, Timeout: cmp.Or(cfg.PeerTimeout, netconn.DefaultPeerTimeout),
		Conn: func(h int) net.Conn { return mesh.Conn(firsts[h]) },
		Name: func(h int) string { return cfg.HostOf(firsts[h]) },
	})
}

// firstRanks returns the first rank of every host. Hosts are numbered in the
// order in which ranks bring them up.
func firstRanks(hosts []int) []int {
	var firsts []int
	for r, h := range hosts {
		if h == len(firsts) {
			firsts = append(firsts, r)
		}
	}
	return firsts
}
