package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/setup"
)

// A rank that is done closes while other ranks still wait for a slow one. No rank is at fault, however long they wait.
func TestCloseWhileOthersWait(t *testing.T) {
	const size = 4
	for root := range size {
		for slow := range size {
			t.Run(fmt.Sprintf("root %d, rank %d slow", root, slow), func(t *testing.T) {
				t.Parallel()
				mustRun(t, size, func(w *fakeWorld, c *Comm) error {
					if w.Rank() == slow {
						time.Sleep(100 * time.Millisecond) // the other ranks poll every 20 ms
					}
					x := []int64{int64(w.Rank())}
					if err := Broadcast(t.Context(), c, x, x, root); err != nil {
						return err
					}
					if x[0] != int64(root) {
						return errors.New("not what the root sent")
					}
					return nil
				})
			})
		}
	}
}

// TestOneWayMismatch: calls from which every rank returns without news from the others. The next call or Close of a
// rank reports that the calls were not the same.
func TestOneWayMismatch(t *testing.T) {
	for name, call := range map[string]func(c *Comm, x []float32) error{
		"Broadcast from different roots": func(c *Comm, x []float32) error {
			return Broadcast(t.Context(), c, x, x, c.Rank()%2)
		},
		"Broadcast, everybody from itself": func(c *Comm, x []float32) error {
			return Broadcast(t.Context(), c, x, x, c.Rank())
		},
		"Reduce with different operations": func(c *Comm, x []float32) error {
			return Reduce(t.Context(), c, x, x, Sum+Op(c.Rank()%2), 0)
		},
		"Broadcast and Reduce": func(c *Comm, x []float32) error {
			if c.Rank() == 0 {
				return Broadcast(t.Context(), c, x, x, 0)
			}
			return Reduce(t.Context(), c, x, x, Sum, 0)
		},
	} {
		for _, size := range []int{2, 3, 4, 7} {
			for _, pause := range []time.Duration{0, 2 * comm.CheckEvery} {
				t.Run(fmt.Sprintf("%s/ranks=%d/pause=%v", name, size, pause), func(t *testing.T) {
					t.Parallel()
					for r, err := range runRanks(t, size, func(_ *fakeWorld, c *Comm) error {
						err := call(c, []float32{1})
						time.Sleep(pause)
						return err
					}, func(c *setup.Config) { c.Settle = soon }) { // for ranks that get no core
						if !errors.Is(err, ErrMismatch) {
							t.Errorf("rank %d: %v, want ErrMismatch", r, err)
						}
					}
				})
			}
		}
	}
}

// TestCloseBeforeTheOthersCall: a rank sends data that no rank receives. Its Close reports this, and so does the Close
// of the ranks it sent to.
func TestCloseBeforeTheOthersCall(t *testing.T) {
	sent := make(chan struct{})
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 0 {
			defer close(sent)
			return Broadcast(t.Context(), c, []float32{1}, []float32{0}, 0)
		}
		<-sent
		return nil
	}, func(c *setup.Config) { c.Settle = soon })
	for r, err := range errs {
		var re *RankError
		if !errors.As(err, &re) || re.Rank != 1 || !errors.Is(err, ErrPeerClosed) {
			t.Errorf("rank %d: %v, want ErrPeerClosed of rank 1", r, err)
		}
	}
}

// TestCloseTwiceAtOnce: the second Close does not disturb the first, nor the other ranks, which are still in the last
// call.
func TestCloseTwiceAtOnce(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		x := []float32{1}
		if c.Rank() == 1 {
			time.Sleep(100 * time.Millisecond)
			return Broadcast(t.Context(), c, x, x, 0)
		}
		if err := Broadcast(t.Context(), c, x, x, 0); err != nil {
			return err
		}
		second := make(chan error)
		go func() { second <- c.Close() }()
		return errors.Join(c.Close(), <-second)
	})
}

// TestExplainAfterwards: Explain prints the same plans after a failure, and after Close.
func TestExplainAfterwards(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		c.Abort(errors.New("enough"))
		failed := c.Explain()
		c.Close()
		if closed := c.Explain(); closed != failed || !strings.Contains(failed, "predicted") ||
			strings.Contains(failed, "stopped") {
			return fmt.Errorf("%s\nafter Close:\n%s", failed, closed)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestCloseNamesWhatIsUnderWay: a Close before the end of a call or message names that.
func TestCloseNamesWhatIsUnderWay(t *testing.T) {
	for want, start := range map[string]func(c *Comm) error{
		"Recv (3 int16, tag 5) under way": func(c *Comm) error { _, err := StartRecv(c, make([]int16, 3), 1, 5); return err },
		"Barrier #1 under way":            func(c *Comm) error { _, err := StartBarrier(c); return err },
	} {
		for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 1 {
				_, err := Recv(t.Context(), c, []int16{0}, 0, 0)
				return err
			}
			return errors.Join(start(c), c.Close())
		}) {
			if !errors.Is(err, ErrPeerClosed) || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		}
	}
}
