package collective

import (
	"fmt"

	"github.com/treerun/treerun/collective/internal/devexec"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// devicePlanning is what makes a planner one for devices.
type devicePlanning struct {
	stagingBytes int64 // of device memory, per rank
}

// deviceKinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var deviceKinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather, plan.ReduceScatter}

// mostOnDevice is the largest message that is priced for devices, in bytes.
const mostOnDevice = 64 << 20

// Staging memory: a share of a device's, up to what keeps any link busy.
const (
	stagingShare = 32 // of the memory, one part
	mostStaging  = 512 << 20
)

// deviceSlots spreads the staging memory of a rank over the slots of all links.
// Large slots are few steps: at some hundred GB/s a device takes as long for a
// megabyte as for beginning with it.
func deviceSlots(size, links int, budget int64) (slots, bytes int) {
	const least, most, grain = 4 << 10, 4 << 20, 4 << 10
	slots = 4
	if links == 0 {
		return slots, least
	}
	n := budget * int64(size) / int64(links*slots)
	return slots, int(min(max(n&^(grain-1), least), most))
}

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

// planKey names a plan of a communicator's devices.
type planKey struct {
	kind  plan.Kind
	shape shape
	root  int // 0 where there is none
}

// devicePlans returns the plans of all choices, in the same order on all ranks,
// and where each stands.
func (p *planner) devicePlans() ([]devexec.Placed, map[planKey]int, error) {
	var all []devexec.Placed
	index := make(map[planKey]int)
	for _, kind := range deviceKinds {
		roots := 1
		if kind.HasRoot() {
			roots = p.size
		}
		for _, c := range p.choices[kind] {
			for root := range roots {
				k := planKey{kind, c.shape, root}
				if _, there := index[k]; there {
					continue
				}
				m, err := p.planFor(kind, root, c.shape)
				if err != nil {
					return nil, nil, err
				}
				lanes := make([]int, len(m.lanes))
				for i, l := range m.lanes {
					lanes[i] = p.lanes.number[l]
				}
				index[k] = len(all)
				all = append(all, devexec.Placed{Plan: m.plan, Lanes: lanes})
			}
		}
	}
	return all, index, nil
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
