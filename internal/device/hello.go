package device

import (
	"fmt"

	"github.com/treerun/treerun/cuda/peers"
)

// hello is what a rank tells of its device.
type hello struct {
	Host   int
	Device string // UUID
	Memory int64  // bytes
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
