//go:build cgo && linux

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

// Ranks that make different calls get an error that names both, also if the first rank to detect it relays the chunks
// between them.
func TestRelayedMismatch(t *testing.T) {
	if !onTwoHosts(t) {
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

// The first cause of a lost rank is the error of the links between hosts, not the device of the rank that detects it.
func TestRelayedRankLost(t *testing.T) {
	if !onTwoHosts(t) {
		return
	}
	relayed(t, func(c *Comm, s *cuda.Stream) error {
		ctx := t.Context()
		if c.Rank() == 0 {
			if err := BarrierDevice(ctx, c, s); err != nil {
				return err
			}
		}
		// Rank 1 has left the call that opened the devices.
		if _, err := member.AllGather(ctx, nil); err != nil {
			return err
		}
		if c.Rank() == 1 { // it never comes, and rank 0 learns that it has gone
			for failed := false; !failed && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				_, failed = c.in.Endpoint.Aborted()
			}
		} else {
			c.in.Links.Opened[0].Abort(transport.Fault{Rank: 1, Text: "it was unplugged"})
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
