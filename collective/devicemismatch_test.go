//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
)

// If a rank makes another device call than the others, the errors of all ranks name it.
func TestDeviceMismatch(t *testing.T) {
	type mem = cuda.Slice[int32]
	for name, w := range map[string]struct {
		odd, call func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error // of rank 1, and of the others
		want      string
	}{
		"kind": {func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return BroadcastDevice(ctx, c, s, x, x, 1)
		}, func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return AllReduceDevice(ctx, c, s, x.Slice(0, 500), x.Slice(0, 500), Max)
		}, "BroadcastDevice #"},
		"root": {func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return GatherDevice(ctx, c, s, x.Slice(250, 500), x, 1)
		}, func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return GatherDevice(ctx, c, s, x.Slice(0, 250), x, 0)
		}, "GatherDevice #"},
		"length": {func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return AllToAllDevice(ctx, c, s, x.Slice(0, 996), x.Slice(0, 996))
		}, func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return AllToAllDevice(ctx, c, s, x, x)
		}, "249 int32"},
		"part": {func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return ScatterDevice(ctx, c, s, x, x.Slice(0, 249), 0)
		}, func(ctx context.Context, c *Comm, s *cuda.Stream, x mem) error {
			return ScatterDevice(ctx, c, s, x, x.Slice(0, 250), 0)
		}, "249 int32"},
	} {
		t.Run(name, func(t *testing.T) {
			if !asProcesses(t, 4, "dgx1v") {
				return
			}
			mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
				ctx := t.Context()
				x, err := cuda.Alloc[int32](s.Device(), 1000)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, x.Free()) }()
				if err := errors.Join(AllReduceDevice(ctx, c, s, x, x, Sum), c.SyncDevice(ctx, s)); err != nil {
					return err
				}
				switch err = Barrier(ctx, c); { // a rank may still be in it when it learns of the other call
				case err != nil:
				case c.Rank() == 1:
					err = w.odd(ctx, c, s, x)
				default:
					err = w.call(ctx, c, s, x)
				}
				if err == nil {
					err = c.SyncDevice(ctx, s)
				}
				if err == nil { // the root of a Broadcast need not receive anything: the next call reports it
					if err = BarrierDevice(ctx, c, s); err == nil {
						err = c.SyncDevice(ctx, s)
					}
				}
				if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), w.want) {
					return fmt.Errorf("different calls: %v", err)
				}
				return closed(c, ErrMismatch)
			})
		})
	}
}

// TestDeviceOperations: there are no And, Or and Xor on devices, also not the logical ones.
func TestDeviceOperations(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		for op := And; op <= LogicalXor; op++ {
			err := AllReduceDevice(t.Context(), c, s, cuda.Slice[int32]{}, cuda.Slice[int32]{}, op)
			want := fmt.Sprintf("AllReduceDevice on rank %d: invalid argument: device calls have no operation %v", c.Rank(), op)
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("%v: %w, want %q", op, err, want)
			}
		}
		return nil
	})
}
