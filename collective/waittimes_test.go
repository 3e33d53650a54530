package collective

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/waits"
)

// A wait that others can see has the predicted time of its call, by which the hang watch judges it. A wait for a
// message has none.
func TestWaitHasThePredictedTime(t *testing.T) {
	worlds := InProcess(2)
	comms := make([]*Comm, 2)
	each := func(f func(rank int) error) {
		t.Helper()
		done := make(chan error, 2)
		for rank := range 2 {
			go func() { done <- f(rank) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	each(func(rank int) (err error) {
		comms[rank], err = New(t.Context(), worlds[rank])
		return err
	})
	wait := func(rank int) (string, int64) {
		for {
			for _, w := range worlds[rank].(interface{ Waits() *waits.Job }).Waits().Status(t.Context(), rank).Waits {
				return w.In, w.Usual
			}
			time.Sleep(time.Millisecond)
		}
	}
	each(func(rank int) error {
		x := make([]float32, 1<<20)
		if rank == 1 {
			if in, usual := wait(0); !strings.HasPrefix(in, "AllReduce #") || usual <= 0 || usual > int64(time.Minute) {
				return fmt.Errorf("rank 0 waits in %s of %d ns", in, usual)
			}
		}
		return AllReduce(t.Context(), comms[rank], x, x, Sum)
	})
	each(func(rank int) error {
		x := make([]float32, 10)
		if rank == 0 {
			return received(t.Context(), comms[rank], x, 1, 3)
		}
		if in, usual := wait(0); !strings.HasPrefix(in, "Recv") || usual != 0 {
			return fmt.Errorf("rank 0 waits in %s of %d ns", in, usual)
		}
		return Send(t.Context(), comms[rank], x, 0, 3)
	})
	each(func(rank int) error { return comms[rank].Close() })
}
