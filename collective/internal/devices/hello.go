package devices

import (
	"fmt"
	"slices"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/cuda/peers"
)

// hello describes the device of a rank.
type hello struct {
	Host   int
	Device string // the UUID of the device
	Memory int64  // bytes of its memory
	Probe  peers.Probe
}

// checkLocations checks the locations that ranks report for the slots of their links, by receiver and sender.
func checkLocations(all [][]device.Location) error {
	for r, of := range all {
		if len(of) != len(all) || of[r] != device.Network || slices.Min(of) < 0 || slices.Max(of) > device.Network {
			return fmt.Errorf("rank %d reports %v as the locations of the slots of its links", r, of)
		}
	}
	return nil
}

// Staging memory: a share of a device's, up to an amount that keeps any link busy.
const (
	stagingShare = 32 // of the memory, one part
	maxStaging   = 512 << 20
)

// stagingBytes returns the staging memory of every rank, by the memory of the ranks' devices and the number of ranks
// that share one.
func stagingBytes(all []hello) int64 {
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
