package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestSendSync: a SendSync of any length returns after its receive, by whatever call, and keeps its place among plain
// Sends.
func TestSendSync(t *testing.T) {
	receives := map[string]func(ctx context.Context, c *Comm, buf []int32) (int, error){
		"Recv": func(ctx context.Context, c *Comm, buf []int32) (int, error) { return Recv(ctx, c, buf, 0, 3) },
		"of any": func(ctx context.Context, c *Comm, buf []int32) (int, error) {
			return Recv(ctx, c, buf, AnySource, AnyTag)
		},
		"new": func(ctx context.Context, c *Comm, buf []int32) (int, error) {
			got, _, err := RecvNew[int32](ctx, c, 0, 3)
			return copy(buf, got), err
		},
		"matched": func(ctx context.Context, c *Comm, buf []int32) (int, error) {
			m, err := ProbeMatched(ctx, c, 0, 3)
			if err != nil {
				return 0, err
			}
			return RecvMatched(ctx, m, buf)
		},
	}
	for _, count := range []int{0, 5, 10_000, 50_000} {
		var begun atomic.Int32
		mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
			x, round := make([]int32, count+1), int32(0)
			for range 3 {
				for _, name := range []string{"Recv", "of any", "new", "matched"} {
					round++
					if c.Rank() == 0 {
						x[0] = round
						err := errors.Join(Send(t.Context(), c, []int32{-round}, 1, 3), SendSync(t.Context(), c, x, 1, 3))
						if now := begun.Load(); err != nil || now != round {
							return fmt.Errorf("after SendSync %d: %d receives had begun: %w", round, now, err)
						}
						continue
					}
					if err := received(t.Context(), c, x[:1], 0, 3); err != nil || x[0] != -round {
						return fmt.Errorf("%d came before message %d: %w", x[0], round, err)
					}
					begun.Store(round)
					if n, err := receives[name](t.Context(), c, x); err != nil || n != len(x) || x[0] != round {
						return fmt.Errorf("%s: %d elements, the first is %d, want %d: %w", name, n, x[0], round, err)
					}
				}
			}
			return Barrier(t.Context(), c)
		})
	}
}

// A receipt comes behind a long message that its sender does not receive yet, and that to itself at once.
func TestSendSyncBehindAnother(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		long, x := slices.Repeat([]int64{int64(c.Rank())}, 1<<20), []int8{7}
		if c.Rank() == 0 {
			m, err := StartSend(c, long, 1, 1)
			if err != nil {
				return err
			}
			if err := received(t.Context(), c, x, 1, 2); err != nil {
				return err
			}
			return m.Wait(t.Context())
		}
		if err := errors.Join(SendSync(t.Context(), c, x, 0, 2), received(t.Context(), c, long, 0, 1)); err != nil {
			return err
		}
		m, err := StartRecv(c, x, 1, 4)
		if err == nil {
			err = errors.Join(SendSync(t.Context(), c, []int8{9}, 1, 4), m.Wait(t.Context()))
		}
		if err != nil || x[0] != 9 || long[1<<20-1] != 0 {
			return fmt.Errorf("%d from itself: %w", x[0], err)
		}
		return nil
	})
}

// A SendSync that waits is named with its rank.
func TestSendSyncFails(t *testing.T) {
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if c.Rank() == 1 {
			return Barrier(t.Context(), c)
		}
		return SendSync(ctx, c, []int32{1, 2, 3}, 1, 5)
	})
	want := "rank 0 waits in SendSync (3 int32, tag 5) on world for rank 1, rank 1 in Barrier #1 on world for rank 0"
	if err := errs[0]; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "undefined") {
		t.Errorf("%v, want %q", err, want)
	}
}
