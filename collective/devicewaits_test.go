//go:build cgo && linux

package collective

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
)

// A rank whose device call has waited for a straggler reports no wait once that call is done: else a stall elsewhere
// would be blamed on the straggler.
func TestDeviceWaitEnds(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		ctx := t.Context()
		waits := func(n int) error {
			for began := time.Now(); ; time.Sleep(time.Millisecond) {
				now := member.Waits().Status(ctx, member.Rank()).Waits
				if len(now) == n {
					return nil
				}
				if time.Since(began) > patienceOnDevice {
					return fmt.Errorf("rank %d reports the waits %+v, want %d", c.Rank(), now, n)
				}
			}
		}
		if err := errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		// In some rounds rank 0 looks at the call between the call of rank 1 and its end, and the wait ends there.
		for range 5 {
			var err error
			if c.Rank() == 0 {
				err = errors.Join(BarrierDevice(ctx, c, s), waits(1))
			}
			if _, late := member.AllGather(ctx, nil); late != nil {
				err = errors.Join(err, late)
			}
			if c.Rank() == 1 {
				err = errors.Join(err, BarrierDevice(ctx, c, s))
			}
			if err := errors.Join(err, c.SyncDevice(ctx, s), waits(0)); err != nil {
				return err
			}
		}
		return nil
	})
}
