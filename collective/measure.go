package collective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// measure probes the links of ranks that are all on one host and gives every rank
// the same graph.
func (s *setup) measure() (*topo.Graph, error) {
	pairs, err := s.measureHost(hostsOf(s.w))
	if err != nil {
		return nil, err
	}
	all, err := exchange(s.ctx, s.w, pairs)
	if err != nil {
		return nil, err
	}
	g := probe.Graph(s.w.Size(), slices.Concat(all...))
	return g, g.Validate()
}

// measureHost probes the links of this rank within its host. There are none to
// probe on a host of several whose ranks do not share what that takes.
func (s *setup) measureHost(hosts []int) ([]probe.Pair, error) {
	w, connect := s.w, s.cfg.connect
	if !oneHost(hosts) {
		w, connect = &hostWorld{World: s.w, members: neighbours(hosts, s.w.Rank())}, connectWithin
	}
	size := w.Size()
	ep, err := connect(s.ctx, w, "probe", probe.Layout(size))
	if err != nil || ep == nil {
		return nil, err
	}
	defer ep.Close()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		abortOnFailure(w, ep, stop)
	}()
	among := crowded(w.Setting("cpus"), size)
	pin := func(k int) (func(), error) { return shm.PinThread(k, among) }
	pairs, err := probe.Measure(s.ctx, ep, w.Rank(), size, s.cores, pin)
	close(stop)
	<-stopped
	return pairs, err
}

// crowded returns the cores of a host among which its ranks are bound, as the launcher's
// setting lists them, where several have to share one; else nil. A rank that keeps to a core
// of its own measures its links from there. Two that share one cannot: what they would
// measure is how long the kernel leaves a core to either.
func crowded(setting string, ranks int) (cores []int) {
	for text := range strings.SplitSeq(setting, ",") {
		cpu, err := strconv.Atoi(text)
		if err != nil || cpu < 0 || cpu >= mostCPUs || len(cores) == ranks-1 {
			return nil
		}
		cores = append(cores, cpu)
	}
	return cores
}

const mostCPUs = 1024 // that fit into a set of the kernel's

// lendGain returns what payloads take through slots over what they take read from their
// sender's own memory, the same on all ranks: as it is now, on one host whose graph was not
// given. 0: nobody knows.
func (s *setup) lendGain(ep transport.Endpoint, lane int) (float64, error) {
	if !s.cfg.tryLending || s.cfg.graph != nil || lane < 0 || !oneHost(hostsOf(s.w)) {
		return 0, nil
	}
	return probe.Lending(s.ctx, ep, lane, s.w.Rank(), s.w.Size())
}

// lendingLoses reports whether payloads pass clearly more quickly through slots than read
// from their sender's own memory.
func lendingLoses(gain float64) bool { return gain > 0 && gain < leastGain }

// leastGain is lower than 1, since what is lent leaves the sender its time, and larger
// payloads gain more than those that are measured.
const leastGain = 0.8

// connectWithin connects the ranks of each host, which w is, by shared memory.
// It returns neither an endpoint nor an error where they cannot be.
func connectWithin(ctx context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, error) {
	gathers := 0
	w.(*hostWorld).gathers = &gathers
	ep, err := connectShm(ctx, w, purpose, layout)
	if err == nil || ctx.Err() != nil {
		return ep, err
	}
	for ; gathers < shmGathers; gathers++ {
		if _, err := w.AllGather(ctx, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// graphsWithin returns the graph within every host, by host. pairs holds what
// every rank measured, by its number on its host. Where that is nothing the links
// get the words of a slow network.
func graphsWithin(hosts []int, pairs [][]probe.Pair) []*topo.Graph {
	var list []*topo.Graph
	for _, first := range firstRanks(hosts) {
		members := neighbours(hosts, first)
		var measured []probe.Pair
		for _, m := range members {
			measured = append(measured, pairs[m]...)
		}
		g := probe.Graph(len(members), measured)
		if err := g.Validate(); err != nil {
			g = topo.UniformGraph(len(members))
			for i := range g.Links {
				l := &g.Links[i]
				l.GBytesPerSecond, l.LatencyUs, l.Kind, l.Source = slowRate, slowLatency, topo.TCP, topo.Estimated
			}
		}
		list = append(list, g)
	}
	return list
}

// linksOf gives the links within hosts the ranks' numbers in the job.
func linksOf(hosts []int, graphs []*topo.Graph) []topo.Link {
	var links []topo.Link
	for h, first := range firstRanks(hosts) {
		members := neighbours(hosts, first)
		for _, l := range graphs[h].Links {
			l.A, l.B = members[l.A], members[l.B]
			links = append(links, l)
		}
	}
	return links
}

// What is taken for ranks of one host that only TCP connects.
const (
	slowRate    = 1.0 // GB/s
	slowLatency = 30.0
)

// networkReport is what one host found of the others.
type networkReport struct {
	Flows []network.Flow
	Trips []network.Trip
	Error string
	At    int64 // seconds since 1970
}

// measureNetwork probes the ways between hosts of these names. The first rank of
// each host takes part.
func (s *setup) measureNetwork(hosts []int, names []string, effort network.Effort) (*network.Network, error) {
	firsts := firstRanks(hosts)
	found, err := s.probeNetwork(hosts, firsts, effort)
	mine := networkReport{At: time.Now().Unix()}
	if err != nil {
		mine.Error = err.Error()
	} else if found != nil {
		mine.Flows, mine.Trips = found.Flows, found.Trips
	}
	all, failed := exchange(s.ctx, s.w, mine)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	sum := &network.Findings{}
	for r, report := range all {
		if report.Error != "" {
			return nil, fmt.Errorf("rank %d: %s", r, report.Error)
		}
		sum.Add(&network.Findings{Flows: report.Flows, Trips: report.Trips})
	}
	n, err := network.Infer(names, sum)
	if err != nil {
		return nil, err
	}
	n.Probe, n.At = effort.String(), all[0].At
	return n, nil
}

// probeNetwork is this rank's part in the measurement between hosts, nil
// findings for ranks that have none.
func (s *setup) probeNetwork(hosts, firsts []int, effort network.Effort) (*network.Findings, error) {
	meets := network.Meets(len(firsts), effort)
	host := hosts[s.w.Rank()]
	first := firsts[host] == s.w.Rank()
	cfg, err := networkConfig(s.w, purposeProbe)
	if err != nil {
		return nil, err
	}
	cfg.Streams, cfg.Encrypt = 1, false
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
		Host: host, Hosts: len(firsts), Effort: effort, Timeout: cmp.Or(cfg.PeerTimeout, netconn.DefaultPeerTimeout),
		Conn: func(h int) probe.Conn { return mesh.Conns(firsts[h])[0] },
		Name: func(h int) string { return s.w.(Networked).HostName(firsts[h]) },
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
