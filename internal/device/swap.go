package device

import (
	"context"
	"errors"

	"github.com/treerun/treerun/internal/comm/setup"
	"github.com/treerun/treerun/transport"
)

// told is what a rank tells the others at a step of opening the devices, and why
// it could not take the step.
type told[T any] struct {
	Fault string
	Value T
}

// swap tells all ranks what this one has made of a step, failed if it could not,
// and returns what all have. Where any failed there is an error on all of them,
// which names the first.
func swap[T any](ctx context.Context, w setup.World, mine T, failed error) ([]T, error) {
	t := told[T]{Value: mine}
	if failed != nil {
		t.Fault = failed.Error()
	}
	all, err := setup.Exchange(ctx, w, t)
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	values := make([]T, len(all))
	for r, t := range all {
		if t.Fault != "" {
			if r != w.Rank() {
				failed = nil
			}
			return nil, &setup.RankError{Rank: r, Op: "opening the devices", Err: setup.DeviceError(t.Fault, failed)}
		}
		values[r] = t.Value
	}
	return values, nil
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
