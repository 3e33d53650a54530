package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Ranks of one process call, split, and call in the parts; several communicators
// of the same Worlds follow each other.
func TestInProcess(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			errs := inProcess(t, n, func(w World, c *Comm) error {
				x, err := Alloc[int32](c, 1000)
				if err != nil {
					return err
				}
				x[999] = int32(c.Rank())
				if err := AllReduce(t.Context(), c, x, x, Sum); err != nil {
					return err
				}
				if want := int32(n * (n - 1) / 2); x[999] != want {
					return fmt.Errorf("sum %d, want %d", x[999], want)
				}
				part, err := c.Split(t.Context(), c.Rank()%2, -c.Rank())
				if err != nil {
					return err
				}
				all := make([]int, part.Size())
				one := []int64{int64(c.Rank())}
				got := make([]int64, part.Size())
				err = AllGather(t.Context(), part, one, got)
				for i := range all {
					all[i] = int(got[i])
				}
				if err == nil && (!slices.IsSortedFunc(all, func(a, b int) int { return b - a }) || all[0]%2 != c.Rank()%2) {
					err = fmt.Errorf("the part holds %v", all)
				}
				again, anew := New(t.Context(), w, WithTopoCache(""))
				if anew == nil {
					anew = errors.Join(Barrier(t.Context(), again), again.Close())
				}
				return errors.Join(err, part.Close(), anew, Free(c, x))
			})
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// Ranks wait for a rank that never comes until the context ends.
func TestInProcessAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c, err := New(ctx, InProcess(2)[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", c, err)
	}
}
