package collective

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// leftWorld is a World that reports whether rank 1 has closed its own World.
type leftWorld struct {
	*testutil.World
	closed *atomic.Bool
}

func (w leftWorld) Left(rank int) bool { return rank == 1 && w.closed.Load() }

// TestLeftWithoutClosing: a rank closes its World and not its communicator. The other ranks, which wait for it in a
// call, get an error that names it, on a part of the communicator.
func TestLeftWithoutClosing(t *testing.T) {
	var closed, over atomic.Bool
	for r, err := range testutil.NewJob(0, 0, 0).Run(t, func(world *testutil.World) error {
		w := leftWorld{world, &closed}
		whole, err := New(t.Context(), w, WithTopoCache(""))
		if err != nil {
			return err
		}
		c, err := whole.Split(t.Context(), 0, -w.Rank()) // rank 1 is in the middle
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			closed.Store(true)
			for !over.Load() {
				time.Sleep(time.Millisecond)
			}
			_, _ = c.Close(), whole.Close() // they have failed
			return nil
		}
		x := []float32{1}
		err = AllReduce(t.Context(), c, x, x, Sum)
		if e := (*RankError)(nil); !errors.As(err, &e) || e.Rank != 1 ||
			!strings.Contains(err.Error(), "has closed its world and not the communicator") {
			t.Errorf("rank %d: %v", w.Rank(), err)
		}
		over.Store(true)
		_, _ = c.Close(), whole.Close()
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
