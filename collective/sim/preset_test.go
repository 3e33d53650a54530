package sim

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/topo"
)

// Paper is a Machine with the figures of a paper for links and for the issue of operations.
type Paper struct {
	Machine
	Name       string             // for users
	IssueUs    float64            // operation i is issued i times this after the first
	RateFactor float64            // of every link's rate, ports and adapters excepted; 0: 1
	LatencyUs  map[string]float64 // by kind of link, in place of the graph's; may be nil
	AdapterGBs map[string]float64 // by kind of link: shared by all links of the kind at one rank, each way; may be nil
}

// graph returns g with the paper's links.
func (m *Paper) graph(g *topo.Graph) *topo.Graph {
	other := *g
	other.Links = slices.Clone(g.Links)
	for i := range other.Links {
		l := &other.Links[i]
		if us, ok := m.LatencyUs[l.Kind]; ok {
			l.LatencyUs = us
		}
		if m.RateFactor > 0 {
			l.GBytesPerSecond *= m.RateFactor
		}
	}
	return &other
}

// network returns the network of g, in which links go through adapters.
func (m Paper) network(g *topo.Graph) (*network, error) {
	w, err := m.Machine.network(m.graph(g))
	type end struct {
		kind string
		rank int
		in   bool
	}
	adapters := make(map[end]int32)
	adapter := func(e end) int32 {
		if _, ok := adapters[e]; !ok {
			adapters[e] = w.add(usPerByte(m.AdapterGBs[e.kind]))
		}
		return adapters[e]
	}
	for _, l := range g.Links {
		if _, ok := m.AdapterGBs[l.Kind]; !ok {
			continue
		}
		for _, ends := range [][2]int{{l.A, l.B}, {l.B, l.A}} {
			at, err := w.route(ends[0], ends[1])
			if err != nil {
				return nil, err
			}
			via := &w.all[at].via // the link first
			*via = slices.Insert(*via, 1, adapter(end{l.Kind, ends[0], false}), adapter(end{l.Kind, ends[1], true}))
		}
	}
	return w, err
}

// Protocol is one of NCCL's ways to move a chunk.
type Protocol int

// The protocols: 8 bytes with a flag, 128 bytes with a flag, and chunks with a
// fence.
const (
	LL Protocol = iota
	LL128
	Simple
)

// Kinds of links that NCCL's cost model distinguishes.
const (
	NVLink = "nvlink"
	PCIe   = "pcie"
	Net    = "net"
)

// ncclCosts are the latencies of NCCL's cost model in microseconds, and the
// share of a link's rate that it expects, by protocol. Source: graph/tuning.cc
// of NCCL 2.30.7.
type ncclCosts struct {
	base, nvlink, pcie, net, rate [3]float64
}

var (
	ncclTree = ncclCosts{
		base:   [3]float64{6.8, 14.0, 8.4},
		nvlink: [3]float64{0.6, 1.25, 4.0},
		pcie:   [3]float64{1.0, 1.9, 4.0},
		net:    [3]float64{5.0, 8.5, 14},
		rate:   [3]float64{0.92 / 3.8, 0.92 * 120 / 128, 0.92},
	}
	ncclRing = ncclCosts{
		base:   [3]float64{6.6, 14.0, 8.4},
		nvlink: [3]float64{0.6, 1.9, 3.4},
		pcie:   [3]float64{1.0, 2.5, 5.7},
		net:    [3]float64{2.7, 4.0, 14},
		rate:   [3]float64{0.5, 0.92, 1},
	}
	ncclSlotBytes = [3]int{32 << 10, 576000, 512 << 10} // data bytes of a step of the FIFO
)

// NCCLTree returns the constants of NCCL's cost model for its tree AllReduce.
// They take the place of the latencies of the graph's links of kinds NVLink,
// PCIe and Net.
//
// In that model a call takes base + 2((perHost-1) local + floor(log2 hosts) net) for no bytes: the time that Price
// returns for double binary trees between hosts with a chain inside each.
func NCCLTree(p Protocol) Paper {
	return ncclMachine("nccl tree", ncclTree, p)
}

// NCCLRing returns the constants of NCCL's cost model for its ring AllReduce over hosts hosts of perHost ranks each.
// Across hosts a local hop costs at least the posting of a message, 1 us, and three times that with Simple; with one
// rank on each host a hop costs the same as in a tree.
func NCCLRing(p Protocol, hosts, perHost int) Paper {
	c := ncclRing
	if hosts > 1 {
		post := 1.0
		if p == Simple {
			post = 3.0
		}
		c.nvlink[p] = max(c.nvlink[p], post)
		c.pcie[p] = max(c.pcie[p], post)
		if perHost == 1 {
			c.net[p] = ncclTree.net[p]
		}
	}
	return ncclMachine("nccl ring", c, p)
}

func ncclMachine(name string, c ncclCosts, p Protocol) Paper {
	return Paper{
		Name: fmt.Sprintf("%s %s", name, [...]string{"LL", "LL128", "Simple"}[p]),
		// The FIFO has 8 steps.
		Machine:    Machine{Slots: 8, SlotBytes: ncclSlotBytes[p], MinChunk: 8 << 10, LaunchUs: c.base[p]},
		RateFactor: c.rate[p],
		LatencyUs:  map[string]float64{NVLink: c.nvlink[p], PCIe: c.pcie[p], Net: c.net[p]},
	}
}

// The constants of MXNet on a p3.16xlarge that its proposal does not give: round figures of the order that CUDA and
// MXNet's engine took in 2018, not measurements. Where curves cross moves in proportion to mxnetStepUs.
const (
	mxnetEngineUs = 4   // the engine, to hand out one copy or sum
	mxnetStepUs   = 10  // CUDA, to begin a copy or a kernel
	mxnetSumGBs   = 250 // of result: a V100 reads two floats and writes one at 900 GB/s
	mxnetSyncUs   = 20  // NCCL in MXNet waits for the streams behind every call
	mxnetPCIeGBs  = 10  // of the proposal: one PCIe connection per GPU, all its PCIe traffic together
	mxnetP2PUs    = 2   // a copy between GPUs, latency over NVLink
	mxnetPCIeUs   = 8   // the same through PCIe and CPU
	mxnetCopyGBs  = 400 // of a copy within a GPU
)

// MXNet returns the constants of MXNet's own communication on a p3.16xlarge (trees, or one GPU as parameter server):
// whole slices without chunks, one copy or sum after the other on every GPU, and the engine issuing the given number of
// copies and sums as one operation. The rates of the links, 50, 25 and 10 GB/s, are the graph's.
func MXNet(engineOps int) Paper {
	us := mxnetEngineUs * float64(engineOps)
	return Paper{
		Name: "mxnet p3.16xlarge", IssueUs: us,
		Machine: Machine{LaunchUs: us, StepUs: mxnetStepUs, Cores: topo.MaxRanks,
			ReduceGBs: mxnetSumGBs, CopyGBs: mxnetCopyGBs},
		LatencyUs:  map[string]float64{NVLink: mxnetP2PUs, PCIe: mxnetPCIeUs},
		AdapterGBs: map[string]float64{PCIe: mxnetPCIeGBs},
	}
}

// MXNetNCCL returns the constants of NCCL's rings as MXNet calls them: Reduce
// and Broadcast one after the other, with a wait behind each.
func MXNetNCCL() Paper {
	m := ncclMachine("mxnet nccl", ncclRing, Simple)
	m.InFlight = 1
	m.LaunchUs += mxnetSyncUs + mxnetEngineUs
	return m
}
