// Package machines holds the graphs of well-known machines, to plan and to
// simulate on: their links and ports as data sheets and published
// descriptions give them. It measures nothing (topo/probe does) and imports
// topo only; commands, examples and tests import it.
//
// The graphs are JSON files, built in, and clusters of them; the files are graph
// files as the command line reads them. Rates are those of the hardware in one direction, before any
// protocol takes its part. Latencies are not from data sheets: they are round
// figures of the order that programs see (1.5 us over NVLink, 2 us through a
// switch of NVLinks, 5 to 9 us over PCIe and sockets, 14 us over InfiniBand,
// 30 us over Ethernet and TCP).
package machines

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

//go:embed *.json
var files embed.FS

// about says of every machine what it is and where its figures come from.
var about = map[string]string{
	"abilene": "The Internet2 Abilene research network of 2004: 11 routers (0 New York, 1 Chicago, 2 Washington, 3 " +
		"Seattle, 4 Sunnyvale, 5 Los Angeles, 6 Denver, 7 Kansas City, 8 Houston, 9 Atlanta, 10 Indianapolis) and 14 " +
		"OC-192 links of 10 Gbit/s, a site each. Latencies are great circles at 200 km per ms. Source: Internet2's " +
		"published network maps.",
	"dgx1p": "NVIDIA DGX-1 with eight Tesla P100: a hybrid cube mesh of 16 single NVLink 1.0, 20 GB/s each way. PCIe " +
		"is left out. Source: NVIDIA DGX-1 white paper (2016).",
	"dgx1v": "NVIDIA DGX-1 with eight Tesla V100: a hybrid cube mesh of six NVLink 2.0 a GPU, 25 GB/s each way; 8 " +
		"pairs have two of them. PCIe is left out. Source: NVIDIA DGX-1 with Tesla V100 white paper (2017); figure 3 of " +
		"MXNet's tree proposal shows the same pairs.",
	"dgx1v-x2": "Two DGX-1 with V100, joined by their four EDR InfiniBand cards of 100 Gbit/s: 12.5 GB/s between any " +
		"two GPUs, 50 GB/s for a host. Source: as dgx1v.",
	"dgx2": "NVIDIA DGX-2: 16 V100 with six NVLink 2.0 each, 150 GB/s each way, on 12 NVSwitches that let any pair use " +
		"all of it. The port of a GPU is the limit. Source: NVIDIA DGX-2 data sheet (2018).",
	"dgxa100": "NVIDIA DGX A100: eight A100 with twelve NVLink 3.0 each, 300 GB/s each way, on six NVSwitches. The " +
		"port of a GPU is the limit. Source: NVIDIA DGX A100 data sheet (2020).",
	"dgxa100-x2": "Two DGX A100, joined by eight HDR InfiniBand cards each, one of 25 GB/s for every GPU: card i with " +
		"card i (rails). The cards are on two switches in turn; what they can reach there besides is left out, so that a " +
		"card has one link. Source: NVIDIA DGX A100 data sheet (2020); ForestColl (2024) plans on the same figures.",
	"dgxa100-x4": "Four DGX A100, joined as dgxa100-x2 is. A card has three links here; their sum is limited by host " +
		"only, to 200 GB/s, since a port counts all traffic of its ranks. Source: as dgxa100-x2.",
	"dgxh100": "NVIDIA DGX H100 (and HGX boards of H100 or H200): eight GPUs with 18 NVLink 4.0 each, 450 GB/s each " +
		"way, on four NVSwitches. The port of a GPU is the limit. Source: NVIDIA DGX H100 data sheet (2022).",
	"dgxh100-x2": "Two DGX H100, joined by eight NDR InfiniBand cards each, one of 50 GB/s for every GPU, on eight " +
		"rails: card i with card i. Source: NVIDIA DGX H100 data sheet (2022).",
	"dgxh100-x4": "Four DGX H100 on eight rails. A card has three links here; their sum is limited by host only, to " +
		"400 GB/s, since a port counts all traffic of its ranks. Source: as dgxh100-x2.",
	"ethernet4x4": "Four hosts of four ranks with a 10 Gbit/s Ethernet card each, 1.25 GB/s; 10 GB/s through shared " +
		"memory inside. Not a product: the cluster of the examples.",
	"mi250": "A server of eight AMD Instinct MI250, two dies each: 16 dies with seven xGMI links of 50 GB/s each way, " +
		"up to four of them between the same two. Source: the link matrix of such a server in ForestColl's published " +
		"topologies (2024).",
	"mi250-x2": "Two servers of eight MI250, joined by a card of 16 GB/s for every die: card i with card i, of one " +
		"InfiniBand switch that joins all. Source: as mi250.",
	"mi300x": "AMD Instinct MI300X platform: eight GPUs, all pairs joined by an Infinity Fabric link of 64 GB/s each " +
		"way. Source: AMD Instinct MI300X platform data sheet (2023).",
	"p3.16xlarge": "Amazon p3.16xlarge as MXNet's tree proposal draws it (figure 3): the NVLinks of dgx1v, and 10 GB/s " +
		"over PCIe and the CPUs between the other pairs. That PCIe links share switches cannot be said beside NVLinks (a " +
		"port counts all traffic of its ranks), so plans that use many of them at once look better here than they are.",
	"p3dn": "Amazon p3dn.24xlarge as MXNet saw it in January 2019: CUDA 9.2 ranked the double NVLinks like PCIe, which " +
		"left the eight single ones, a ring, and no tree was found. Source: the weights printed in dmlc/gluon-nlp issue " +
		"520; p3dn.24xlarge is the machine as it is.",
	"p3dn.24xlarge": "Amazon p3dn.24xlarge: eight V100 with the NVLinks of dgx1v. Source: AWS's description of the " +
		"instance type, apache/mxnet pull request 13852.",
	"pcie8": "A server of eight GPUs on PCIe 3.0 x16, about 12 GB/s each way: a switch for every two GPUs, two sockets " +
		"with 9 GB/s between them. Ports: each GPU, the uplink of each switch, the interconnect. Not one product: the " +
		"usual shape of such servers, rates as NCCL's tables have them.",
	"two-sockets": "Eight ranks on the cores of two sockets, no GPU: 10 GB/s of copying per rank through shared " +
		"memory, and two UPI links of 10.4 GT/s, 41.6 GB/s each way, between the sockets. Source for UPI: Intel Xeon " +
		"Scalable data sheets (2017); the copying is an order of magnitude.",
}

// Names returns the names of all machines, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(about))
}

// Get returns the graph of a machine, a new one with every call, its links
// marked as declared. It reports whether there is a machine of that name.
func Get(name string) (*topo.Graph, bool) {
	if about[name] == "" {
		return nil, false
	}
	g := graph(name)
	for i := range g.Links {
		g.Links[i].Source = topo.Declared
	}
	return g, true
}

// graph makes the graph of a machine that there is.
func graph(name string) *topo.Graph {
	if c, ok := clusters[name]; ok {
		return c.graph(name)
	}
	data, missing := files.ReadFile(name + ".json")
	g, err := topo.ParseGraph(data)
	if err := cmp.Or(missing, err); err != nil {
		panic(fmt.Sprintf("machines: %s: %v", name, err))
	}
	return g
}

// About says what a machine is and where its figures come from, for people;
// empty when there is none of that name.
func About(name string) string { return about[name] }

// Details writes a paragraph per machine: name, ranks, and all there is to say
// about it with the source of the figures, in lines of at most 80 characters.
func Details() string {
	const indent = "    "
	var b strings.Builder
	for _, name := range Names() {
		g, _ := Get(name)
		fmt.Fprintf(&b, "%s, %d ranks\n", name, g.Ranks)
		for _, line := range numbers.Wrapped(about[name], 80-len(indent)) {
			b.WriteString(indent + line + "\n")
		}
	}
	return b.String()
}
