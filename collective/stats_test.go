package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rowOf returns the statistics of a communicator for calls of one kind.
func rowOf(c *Comm, call string) CallStats {
	for _, row := range c.Stats().Calls {
		if row.Call == call {
			return row
		}
	}
	return CallStats{}
}

const countedSize = 3

func ten() []float32 { return make([]float32, 10) }

// countedForms are calls, and the counts that they add to a row.
var countedForms = []struct {
	name, row    string
	calls, bytes int64
	make         func(ctx context.Context, c *Comm) error
}{
	{"AllReduce", "AllReduce", 1, 40, func(ctx context.Context, c *Comm) error {
		return AllReduce(ctx, c, ten(), ten(), Sum)
	}},
	{"of nothing", "AllReduce", 1, 0, func(ctx context.Context, c *Comm) error {
		return AllReduce(ctx, c, ten()[:0], ten()[:0], Sum)
	}},
	{"a refused one", "AllReduce", 0, 0, func(ctx context.Context, c *Comm) error {
		if err := AllReduce(ctx, c, ten(), ten()[:1], Sum); !errors.Is(err, ErrArgument) {
			return fmt.Errorf("no ErrArgument: %v", err)
		}
		return nil
	}},
	{"Start and Wait", "AllReduce", 2, 80, func(ctx context.Context, c *Comm) error {
		first, err := StartAllReduce(c, ten(), ten(), Sum)
		second, err2 := StartAllReduce(c, ten(), ten(), Sum)
		return errors.Join(err, err2, second.Wait(ctx), first.Wait(ctx))
	}},
	{"coalesced", "AllReduce", 1, 80, func(ctx context.Context, c *Comm) error {
		return AllReduceCoalesced(ctx, c, [][]float32{ten(), ten()}, [][]float32{ten(), ten()}, Sum)
	}},
	{"value", "AllReduce", 1, 8, func(ctx context.Context, c *Comm) error {
		_, err := AllReduceValue(ctx, c, 1.0, Sum)
		return err
	}},
	{"AllGather", "AllGather", 1, 120, func(ctx context.Context, c *Comm) error {
		return AllGather(ctx, c, ten(), make([]float32, 30))
	}},
	{"AllGatherV", "AllGather", 1, 12, func(ctx context.Context, c *Comm) error {
		return AllGatherV(ctx, c, ten()[:c.Rank()], ten()[:3], []int{0, 1, 2})
	}},
	{"AllToAll", "AllToAll", 1, 36, func(ctx context.Context, c *Comm) error {
		return AllToAll(ctx, c, ten()[:9], ten()[:9])
	}},
	{"AllToAllV", "AllToAll", 1, 24, func(ctx context.Context, c *Comm) error {
		return AllToAllV(ctx, c, ten()[:6], []int{2, 2, 2}, ten()[:6], []int{2, 2, 2})
	}},
	{"Barrier", "Barrier", 1, 0, Barrier},
	{"Scan", "Scan", 1, 40, func(ctx context.Context, c *Comm) error {
		return Scan(ctx, c, ten(), ten(), Sum)
	}},
	{"its parts", "AllGather", 0, 0, func(ctx context.Context, c *Comm) error {
		return AllReduceFunc(ctx, c, ten(), ten(), func(into, from []float32) {})
	}},
	{"AllReduceFunc", "AllReduceFunc", 1, 40, func(ctx context.Context, c *Comm) error {
		return AllReduceFunc(ctx, c, ten(), ten(), func(into, from []float32) {})
	}},
	{"SendRecv, of fewer", "Recv", 1, 40, func(ctx context.Context, c *Comm) error {
		_, err := SendRecv(ctx, c, ten(), (c.Rank()+1)%countedSize, make([]float32, 20), (c.Rank()+2)%countedSize, 0)
		return err
	}},
	{"SendRecv", "Send", 1, 40, func(ctx context.Context, c *Comm) error {
		_, err := SendRecv(ctx, c, ten(), (c.Rank()+1)%countedSize, make([]float32, 20), (c.Rank()+2)%countedSize, 0)
		return err
	}},
	{"Recv from any, of fewer", "Recv", 1, 40, func(ctx context.Context, c *Comm) error {
		m, err := StartSend(c, ten(), (c.Rank()+1)%countedSize, 0)
		_, err2 := Recv(ctx, c, make([]float32, 20), AnySource, AnyTag)
		return errors.Join(err, err2, m.Wait(ctx))
	}},
	{"Split", "Split", 1, 0, func(ctx context.Context, c *Comm) error {
		part, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		return part.Close()
	}},
}

// TestStatsCount: every form of a call counts once, with the bytes of its message.
func TestStatsCount(t *testing.T) {
	mustRun(t, countedSize, func(_ *fakeWorld, c *Comm) error {
		for _, f := range countedForms {
			before := rowOf(c, f.row)
			if err := f.make(t.Context(), c); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			after := rowOf(c, f.row)
			calls, bytes := after.Count-before.Count, after.Bytes-before.Bytes
			if calls != f.calls || bytes != f.bytes {
				return fmt.Errorf("%s: %s has %d calls of %d bytes, want %d of %d", f.name, f.row, calls, bytes, f.calls,
					f.bytes)
			}
			if after.Time < after.Waiting || f.calls > 0 && f.name != "SendRecv" && after.Time <= before.Time {
				return fmt.Errorf("%s: %+v after %+v", f.name, after, before)
			}
		}
		return nil
	})
}

// TestStatsWaiting: the rank that others wait for has no waiting time, and a wait counts for the call that it was in.
func TestStatsWaiting(t *testing.T) {
	const late = 200 * time.Millisecond
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if err := Barrier(t.Context(), c); err != nil {
			return err
		}
		before := rowOf(c, "AllReduce")
		if c.Rank() == 1 {
			time.Sleep(late)
		}
		x := make([]float32, 1)
		if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
			return err
		}
		s := rowOf(c, "AllReduce")
		waited := s.Waiting - before.Waiting
		if c.Rank() == 0 && (waited < late*3/4 || s.Time < s.Waiting) || c.Rank() == 1 && waited > late/2 {
			return fmt.Errorf("waited %v of %v for a rank that was %v late", waited, s.Time, late)
		}
		return nil
	})
}

// TestStatsOfFailure: an AllToAllV that fails counts no bytes but those that the caller sends.
func TestStatsOfFailure(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		counts := []int{1, 1}
		counts[1-c.Rank()] = 2 - 2*c.Rank()
		err := AllToAllV(t.Context(), c, make([]int8, 2), []int{1, 1}, make([]int8, counts[0]+counts[1]), counts)
		if s := rowOf(c, "AllToAll"); !errors.Is(err, ErrMismatch) || s.Bytes > 2 {
			return fmt.Errorf("%v: %d bytes", err, s.Bytes)
		}
		return nil
	})
}

// TestStatsTime: the time of small calls, few of which are timed, is about the time by the clock.
func TestStatsTime(t *testing.T) {
	mustRun(t, 1, func(_ *fakeWorld, c *Comm) error {
		begin := time.Now()
		for range 100_000 {
			if _, err := AllReduceValue(t.Context(), c, 1, Sum); err != nil {
				return err
			}
		}
		took := time.Since(begin)
		if s := rowOf(c, "AllReduce"); s.Count != 100_000 || s.Time < took/10 || s.Time > 10*took {
			return fmt.Errorf("%d calls took %v, stats say %v", s.Count, took, s.Time)
		}
		return nil
	})
}

// TestStatsMeanwhile: another goroutine reads them while calls run, and after Close. A call in flight counts.
func TestStatsMeanwhile(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		var stop atomic.Bool
		read := make(chan int64)
		go func() {
			last := int64(0)
			for !stop.Load() {
				last = rowOf(c, "Barrier").Count
				_ = c.Stats().String()
			}
			read <- last
		}()
		for range 1000 {
			if err := Barrier(t.Context(), c); err != nil {
				return err
			}
		}
		stop.Store(true)
		if n := <-read; n < 0 || n > 1000 {
			return fmt.Errorf("%d calls seen of 1000", n)
		}
		if err := c.Close(); err != nil {
			return err
		}
		s := c.Stats()
		if len(s.Calls) != 1 || s.Calls[0].Count != 1000 || !strings.Contains(s.String(), "Barrier") {
			return fmt.Errorf("after Close: %v", s)
		}
		return nil
	}, WithName("loop"))
}
