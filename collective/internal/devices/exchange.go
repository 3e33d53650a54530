package devices

import (
	"context"
	"errors"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/transport"
)

// exchange is agree.Exchange at a step of opening the devices.
func exchange[T any](ctx context.Context, w setup.World, mine T, failed error) ([]T, error) {
	all, err := agree.Exchange(ctx, w.AllGather, w.Size(), nil, mine, failed)
	return all, deviceError("opening the devices", err)
}

// deviceError turns the failure of a rank into a device error in op.
func deviceError(op string, err error) error {
	var failed *agree.Failed
	if errors.As(err, &failed) {
		return &setup.RankError{Rank: failed.Rank, Op: op, Err: setup.DeviceError(failed.Why, failed.Own)}
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
