//go:build cgo

package collective

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// relayed runs body on this rank of two whose devices do not read each other, after a
// first call that opens them.
func relayed(t *testing.T, body func(c *Comm, s *cuda.Stream) error) {
	t.Helper()
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		if err := errors.Join(BarrierDevice(t.Context(), c, s), c.SyncDevice(t.Context(), s)); err != nil {
			return err
		}
		if len(c.in.Sides) == 0 {
			return errors.New("the devices read each other: nothing is relayed")
		}
		return body(c, s)
	})
}

// closed takes what Close says of a communicator that has failed for what is known.
func closed(c *Comm, known error) error {
	if err := c.Close(); err != nil && !errors.Is(err, known) {
		return err
	}
	return nil
}

// Ranks that make different calls hear of both also where the first to find out is
// whoever carries the chunks between them.
func TestRelayedMismatch(t *testing.T) {
	if !onRanks(t, 2, "dgx1v", "TREERUN_FAKE_GPU_BROKEN=0-1") {
		return
	}
	for range testutil.Count(2, 4) {
		relayed(t, func(c *Comm, s *cuda.Stream) error {
			x, err := cuda.Alloc[int32](s.Device(), 200)
			if err != nil {
				return err
			}
			if err = AllReduceDevice(t.Context(), c, s, x.Slice(0, 100+c.Rank()), x.Slice(0, 100+c.Rank()), Sum); err == nil {
				err = c.SyncDevice(t.Context(), s)
			}
			if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "100 int32") ||
				!strings.Contains(err.Error(), "101 int32") {
				return errors.Join(errors.New("want ErrMismatch with both calls, not"), err)
			}
			return errors.Join(closed(c, ErrMismatch), x.Free())
		})
	}
}

// What the links between hosts say of a rank that is gone is the first cause: not the
// device of the rank that hears of it.
func TestRelayedRankLost(t *testing.T) {
	if !onRanks(t, 2, "dgx1v", "TREERUN_FAKE_GPU_BROKEN=0-1") {
		return
	}
	relayed(t, func(c *Comm, s *cuda.Stream) error {
		ctx := t.Context()
		if c.Rank() == 0 {
			if err := BarrierDevice(ctx, c, s); err != nil {
				return err
			}
		}
		// Rank 1 is out of the call that opened the devices.
		if _, err := member.AllGather(ctx, nil); err != nil {
			return err
		}
		if c.Rank() == 1 { // it never comes, and rank 0 hears that it has gone
			for failed := false; !failed && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				_, failed = c.in.Endpoint.Aborted()
			}
		} else {
			c.in.Sides[0].Abort(transport.Fault{Rank: 1, Text: "it was unplugged"})
		}
		err := c.SyncDevice(ctx, s)
		if c.Rank() == 1 {
			err = BarrierDevice(ctx, c, s)
		}
		var failed *RankError
		if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, ErrRankLost) ||
			!strings.Contains(err.Error(), "unplugged") {
			return errors.Join(errors.New("want the loss of rank 1, not"), err)
		}
		return closed(c, ErrRankLost)
	})
}
