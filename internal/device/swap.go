package device

import (
	"context"
	"errors"

	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/transport"
)

// swap is peers.Swap at a step of opening the devices.
func swap[T any](ctx context.Context, w setup.World, mine T, failed error) ([]T, error) {
	all, err := peers.Swap(ctx, w, mine, failed)
	return all, deviceError("opening the devices", err)
}

// deviceError makes what a rank could not do a device's failure in op.
func deviceError(op string, err error) error {
	var failed *peers.Failed
	if errors.As(err, &failed) {
		return &setup.RankError{Rank: failed.Rank, Op: op, Err: setup.DeviceError(failed.Text, failed.Err)}
	}
	return err
}

// sharing returns the ranks that share memory with this one, rising, itself among
// them: those of its host, unless containers keep them apart.
func sharing(ep transport.Endpoint, size int) []int {
	var all []int
	for r := range size {
		if _, err := ep.View(r, 0, 0); err == nil {
			all = append(all, r)
		}
	}
	return all
}
