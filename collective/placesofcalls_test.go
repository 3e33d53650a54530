package collective

import (
	"fmt"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// TestManyCoalesced starts more calls over slices than may be under way. While a rank waits for the oldest one the
// others may end, too: the next call takes the place of the latest, and no call loses its slices to another.
func TestManyCoalesced(t *testing.T) {
	const rounds, calls = 20, 300
	errs := runHosts(t, []int{0, 0}, nil, func(_ *testutil.Hosted, c *Comm) error {
		for round := range rounds {
			var all [calls][2][]int32
			var started [calls]Request
			for k := range all {
				value := int32(round*calls + k)
				all[k] = [2][]int32{make([]int32, 2), make([]int32, 3)}
				if c.Rank() == 0 {
					all[k][0][1], all[k][1][2] = value, -value
				}
				if c.Rank() == 0 && k%64 == 5 {
					time.Sleep(time.Duration(round%7) * 100 * time.Microsecond)
				}
				var err error
				if started[k], err = StartBroadcastCoalesced(c, all[k][:], all[k][:], 0); err != nil {
					return err
				}
			}
			for k := range all {
				if err := started[k].Wait(t.Context()); err != nil {
					return err
				}
				if value := int32(round*calls + k); all[k][0][1] != value || all[k][1][2] != -value {
					return fmt.Errorf("rank %d, round %d, call %d: %v", c.Rank(), round, k, all[k])
				}
			}
		}
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestChildrenComeAndGo makes and closes communicators of all ranks of two hosts, one after the other, each with a few
// calls: the notice that a rank has closed one follows its latest call.
func TestChildrenComeAndGo(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	errs := runHosts(t, []int{0, 0, 1}, nil, func(_ *testutil.Hosted, c *Comm) error {
		for i := range rounds {
			d, err := c.Dup(t.Context())
			if err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			for range i % 4 {
				if _, err = AllReduceValue(t.Context(), d, 1., Sum); err != nil {
					return fmt.Errorf("round %d: %w", i, err)
				}
			}
			if err = d.Close(); err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
		}
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
