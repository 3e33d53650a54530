package gpu

import "cmp"

// Declared bandwidths, each way, in GB/s (1e9 bytes): a copy's payload is less than a data sheet's value by packet
// headers, some 5 to 20 %. Measured values take their place.

// nvlinkRates holds the bandwidth of one NVLink by generation. Sources: NVIDIA's
// white papers on Pascal P100 (2016: four links of 20 GB/s each way), Volta V100
// (2017: six of 25), Ampere A100 (2020: twelve of 25), Hopper H100 (2022: eighteen
// of 25) and Blackwell (2024: eighteen of 50, 1.8 TB/s both ways together).
var nvlinkRates = map[int]float64{1: 20, 2: 25, 3: 25, 4: 25, 5: 50}

// nvlinkRate returns the bandwidth of one NVLink of a generation. NVML counts some links between generations (NVLink
// 2.2, and 3.1 of A30) as ones of their own; an unknown generation counts as 25, the value of most.
func nvlinkRate(version int) float64 { return cmp.Or(nvlinkRates[version], 25) }

// pcieLaneRates holds the bandwidth of one PCIe lane by generation: transfers
// per second times the code's efficiency (8b/10b, 128b/130b, and 242/256 with
// flits) over 8 bits. Sources: PCI-SIG's base specifications 1.0 to 6.0.
var pcieLaneRates = map[int]float64{
	1: 2.5 * 8 / 10 / 8, 2: 5.0 * 8 / 10 / 8, 3: 8.0 * 128 / 130 / 8, 4: 16.0 * 128 / 130 / 8, 5: 32.0 * 128 / 130 / 8,
	6: 64.0 * 242 / 256 / 8,
}

// Where NVML reports nothing, a slot counts as PCIe 3.0 x16.
const (
	usualGeneration = 3
	usualWidth      = 16
)

// PCIeRate returns the bandwidth of a PCIe slot, each way, in GB/s; 0 means a usual one. A generation that is not known
// counts as the newest that is.
func PCIeRate(generation, width int) float64 {
	generation, width = cmp.Or(max(generation, 0), usualGeneration), cmp.Or(max(width, 0), usualWidth)
	return pcieLaneRates[min(generation, len(pcieLaneRates))] * float64(width)
}

// SocketRate is the rate between two sockets for traffic between GPUs: its limit is the peer traffic that gets through
// the interconnect, not the interconnect's own speed. Source: NCCL's table of CPU interconnects, which has 9 to 12 GB/s
// (QPI, Skylake SP) and 16 to 24 GB/s (AMD, later Xeons).
const SocketRate = 12.0

// hostShare is the share of their slots' bandwidth that pairs get when they cannot reach each other and go through
// pinned memory of the host: each byte crosses the host's memory twice, and one chunk waits for the other. An order of
// magnitude.
const hostShare = 0.5

// Latencies, one way, in microseconds: orders of magnitude, to be measured; those of
// topo/machines.
var (
	pcieLatency = map[Level]float64{
		LevelBoard: 4, LevelSwitch: 5, LevelSwitches: 6, LevelRoot: 7, LevelNode: 8, LevelSystem: 9, LevelUnknown: 9,
	}
	nvlinkLatency   = 1.5
	nvswitchLatency = 2.0
	sameLatency     = 1.0
	hostLatency     = 12.0
)

// sameRate is that between two ranks of one GPU, in bytes copied within its memory: half the memory's bandwidth, since
// each byte is read and written. Where NVML does not report clock and width it is that of a P100, the slowest GPU with
// NVLink (732 GB/s).
func sameRate(g *GPU) float64 {
	return cmp.Or(max(g.MemoryRate, 0), 732) / 2
}
