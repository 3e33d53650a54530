package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestPartsInAnyOrder splits communicators that were split from others again and again, and closes them in any order,
// also before those that were made of them. Some are aborted. The others go on.
func TestPartsInAnyOrder(t *testing.T) {
	for seed := range uint64(testutil.Count(4, 40)) {
		errs := runRanks(t, 4, func(_ *fakeWorld, world *Comm) error {
			all := rand.New(rand.NewPCG(seed, 7)) // the same numbers on all ranks
			open := map[int]*Comm{0: world}       // those of this rank
			for step := 1; step < 80; step++ {
				id, choice, color := all.IntN(step), all.IntN(10), all.Perm(world.Size())
				c := open[id]
				switch {
				case c == nil:
				case choice < 6:
					part, err := c.Split(t.Context(), color[c.Rank()]%2, color[c.Rank()])
					if err == nil {
						err = sumOn(t.Context(), part)
					}
					if err != nil {
						return fmt.Errorf("seed %d, step %d: %w", seed, step, err)
					}
					open[step] = part
				case id == 0:
				case choice < 7:
					if err := Barrier(t.Context(), world); err != nil { // the calls before are done
						return err
					}
					if c.Rank() == 0 {
						c.Abort(errors.New("on purpose"))
					}
					if err := sumOn(t.Context(), c); c.Size() > 1 && !errors.Is(err, ErrAborted) {
						return fmt.Errorf("seed %d, step %d: %v, want ErrAborted", seed, step, err)
					}
					_ = c.Close()
					delete(open, id)
				default:
					if err := errors.Join(sumOn(t.Context(), c), c.Close()); err != nil {
						return fmt.Errorf("seed %d, step %d: %w", seed, step, err)
					}
					delete(open, id)
				}
			}
			delete(open, 0)
			for _, c := range open {
				if err := c.Close(); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

// More communicators are open at once than have room in the memory of the first one: of those of all ranks, and of
// those of one rank alone.
func TestManyParts(t *testing.T) {
	const many = 300
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		var open []*Comm
		for i := range many {
			part, err := c.Split(t.Context(), c.Rank()*(i%2), 0) // of each rank alone, and of both
			if err == nil {
				err = sumOn(t.Context(), part)
			}
			if err != nil {
				return fmt.Errorf("communicator %d: %w", i, err)
			}
			open = append(open, part)
		}
		for i, part := range slices.Backward(open) {
			if err := errors.Join(sumOn(t.Context(), part), part.Close()); err != nil {
				return fmt.Errorf("communicator %d: %w", i, err)
			}
		}
		return nil
	})
}
