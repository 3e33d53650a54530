package comm

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/device"
	"github.com/treerun/treerun/topo"
)

// devicePlanning is what makes a planner one for devices.
type devicePlanning struct {
	stagingBytes int64 // of device memory, per rank
}

// DeviceKinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var DeviceKinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter}

// Staging memory: a share of a device's, up to what keeps any link busy.
const (
	stagingShare = 32 // of the memory, one part
	mostStaging  = 512 << 20
)

// stagingBytes is what every rank gives to staging, by the memory of the ranks'
// devices and how many ranks share one.
func stagingBytes(all []deviceHello) int64 {
	least := int64(mostStaging)
	for _, h := range all {
		sharing := int64(0)
		for _, o := range all {
			if o.Device == h.Device && o.Host == h.Host {
				sharing++
			}
		}
		least = min(least, h.Memory/stagingShare/sharing)
	}
	return least
}

// devicePlans returns the plans of all choices, in the same order on all ranks, and lets
// each know where it stands.
func (p *plans) devicePlans() ([]device.Placed, error) {
	var all []device.Placed
	for _, kind := range DeviceKinds {
		list, err := p.AllServed(kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if p.rank == 0 {
				if err := p.Verify(s); err != nil {
					return nil, err
				}
			}
			s.Attached = len(all)
			all = append(all, device.Placed{Plan: s.Plan, Lanes: s.Lanes})
		}
	}
	return all, nil
}

// What is taken of devices that nobody has measured: GB/s and microseconds.
const (
	sameDeviceRate, sameDeviceLatency = 500.0, 2.0
	peerRate, peerLatency             = 25.0, 5.0
	relayedRate, relayedLatency       = 5.0, 30.0
)

// Kinds of links between devices, as the graph names them.
const (
	kindSame    = "same device"
	kindPeer    = "peer"
	kindRelayed = "host memory"
)

// declaredGraph is the graph of the ranks' devices where nobody has measured:
// direct tells which devices read each other's memory. What is between hosts is
// taken from the graph of the ranks.
func declaredGraph(ranks *topo.Graph, all []deviceHello, direct func(src, dst int) bool) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("devices of %d ranks", len(all)), Ranks: len(all), Hosts: ranks.Hosts}
	host := func(r int) int {
		if len(ranks.Hosts) == 0 {
			return 0
		}
		return ranks.Hosts[r]
	}
	for a := range all {
		for b := a + 1; b < len(all); b++ {
			l := topo.Link{A: a, B: b, Source: topo.Declared}
			switch {
			case host(a) != host(b):
				continue
			case !direct(a, b) || !direct(b, a):
				l.GBytesPerSecond, l.LatencyUs, l.Kind = relayedRate, relayedLatency, kindRelayed
			case all[a].Device == all[b].Device:
				l.GBytesPerSecond, l.LatencyUs, l.Kind = sameDeviceRate, sameDeviceLatency, kindSame
			default:
				l.GBytesPerSecond, l.LatencyUs, l.Kind = peerRate, peerLatency, kindPeer
			}
			g.Links = append(g.Links, l)
		}
	}
	betweenHosts(g, ranks, host)
	return g
}

// betweenHosts adds the links and ports between hosts of the ranks' graph to that
// of their devices.
func betweenHosts(g, ranks *topo.Graph, host func(r int) int) {
	for _, l := range ranks.Links {
		if host(l.A) != host(l.B) {
			g.Links = append(g.Links, l)
		}
	}
	if len(plan.Hosts(ranks)) > 1 {
		g.Ports = append(g.Ports, ranks.Ports...)
	}
}
