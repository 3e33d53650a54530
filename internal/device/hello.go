package device

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/cuda/peers"
)

// hello is what a rank tells of its device.
type hello struct {
	Host   int
	Device string // UUID
	Memory int64  // bytes
	Probe  peers.Probe
}

// reach is whose memory a rank's device reads, and why not that of others that it shares the host's
// memory with.
type reach struct {
	Sources []int
	Missing []Missing
}

// Missing is a rank whose memory a device does not read.
type Missing struct {
	Rank int
	Why  string
}

// placesOf returns where the slots of links lie, by receiver and sender, as the ranks said.
func placesOf(all []reach) ([][]Place, error) {
	of := make([][]Place, len(all))
	for r, reach := range all {
		of[r] = slices.Repeat([]Place{Relayed}, len(all))
		ok := true
		put := func(q int, p Place) {
			if ok = ok && q >= 0 && q < len(all) && q != r && of[r][q] == Relayed; ok {
				of[r][q] = p
			}
		}
		for _, q := range reach.Sources {
			put(q, InDevice)
		}
		for _, m := range reach.Missing {
			put(m.Rank, InHost)
		}
		if !ok {
			return nil, fmt.Errorf("rank %d says that it shares memory with ranks %+v", r, reach)
		}
	}
	return of, nil
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
