package device

import (
	"fmt"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/topo"
)

// hello is what a rank tells of its device.
type hello struct {
	Host   int
	Device string // UUID
	Name   string
	Memory int64 // bytes
	Probe  peers.Probe
}

// reach is whose memory a rank's device reads, and why not that of others of
// its host.
type reach struct {
	Sources []int
	Missing []Missing
}

// Missing is a rank whose memory a device does not read.
type Missing struct {
	Rank int
	Why  string
}

// directReads returns whose memory each rank's device reads, as the ranks said and
// rising.
func directReads(all []reach) ([][]int, error) {
	direct := make([][]int, len(all))
	for r, reach := range all {
		last := -1
		for _, q := range reach.Sources {
			if q <= last || q >= len(all) || q == r {
				return nil, fmt.Errorf("rank %d says that its device reads the memory of ranks %v", r, reach.Sources)
			}
			last = q
		}
		direct[r] = reach.Sources
	}
	return direct, nil
}

// Staging memory: a share of a device's, up to what keeps any link busy.
const (
	stagingShare = 32 // of the memory, one part
	maxStaging   = 512 << 20
)

// StagingBytes is what every rank gives to staging, by the memory of the ranks'
// devices and how many ranks share one.
func StagingBytes(all []hello) int64 {
	least := int64(maxStaging)
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
func declaredGraph(ranks *topo.Graph, all []hello, direct func(src, dst int) bool) *topo.Graph {
	g := &topo.Graph{Name: fmt.Sprintf("devices of %d ranks", len(all)), Ranks: len(all), Hosts: ranks.Hosts}
	for a := range all {
		for b := a + 1; b < len(all); b++ {
			l := topo.Link{A: a, B: b, Source: topo.Declared}
			switch {
			case ranks.Host(a) != ranks.Host(b):
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
	for _, l := range ranks.Links {
		if ranks.Host(l.A) != ranks.Host(l.B) {
			g.Links = append(g.Links, l)
		}
	}
	if len(plan.Hosts(ranks)) > 1 {
		g.Ports = append(g.Ports, ranks.Ports...)
	}
	return g
}
