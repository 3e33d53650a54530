package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSplit halves a communicator by parity, against the order of the ranks,
// and halves one half again; all of them work side by side.
func TestSplit(t *testing.T) {
	const size = 7
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		color := c.Rank() % 2
		if c.Rank() == size-1 {
			color = -1
		}
		half, err := c.Split(t.Context(), color, -c.Rank())
		if err != nil {
			return err
		}
		if color < 0 {
			if half != nil {
				return errors.New("a communicator for a negative colour")
			}
			return Barrier(t.Context(), c)
		}
		x := []int32{int32(c.Rank())}
		all := make([]int32, half.Size())
		if err := AllGather(t.Context(), half, x, all); err != nil {
			return err
		}
		want := []int32{4, 2, 0}
		if color == 1 {
			want = []int32{5, 3, 1}
		}
		if fmt.Sprint(all) != fmt.Sprint(want) {
			return fmt.Errorf("colour %d has ranks %v, want %v", color, all, want)
		}
		alone, err := half.Split(t.Context(), half.Rank(), 0)
		if err != nil {
			return err
		}
		if alone.Size() != 1 || alone.Rank() != 0 {
			return fmt.Errorf("alone, but rank %d of %d", alone.Rank(), alone.Size())
		}
		return errors.Join(alone.Close(), half.Close(), Barrier(t.Context(), c))
	})
}

// TestAbort: what a rank says when it gives up reaches everybody.
func TestAbort(t *testing.T) {
	for r, err := range runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			c.Abort(errors.New("loss is NaN\nin layer 3"))
		}
		return Barrier(t.Context(), c)
	}) {
		var re *RankError
		if !errors.Is(err, ErrAborted) || !errors.As(err, &re) || re.Rank != 1 ||
			!strings.HasSuffix(err.Error(), ": rank 1 aborted the communicator: loss is NaN; in layer 3") {
			t.Errorf("rank %d: %v, want ErrAborted of rank 1", r, err)
		}
	}
}
