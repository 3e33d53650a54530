package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestMatched: rank 0 finds messages of all ranks, its own too, and receives them later in another order, by Recvs and
// RecvNews in between. Each message is received once, as a whole, by the call that it is for.
func TestMatched(t *testing.T) {
	const size, each = 3, 24
	count := func(from, i int) int { return []int{1 + from, 0, 300 * i, 40_000 + i}[i%4] }
	for seed := range uint64(6) {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			var sends []Message
			for i := range each {
				m, err := StartSend(c, slices.Repeat([]int32{int32(1000*c.Rank() + i)}, count(c.Rank(), i)), 0, i%2)
				if err != nil {
					return err
				}
				sends = append(sends, m)
			}
			if c.Rank() > 0 {
				return WaitAll(t.Context(), sends...)
			}
			rng := rand.New(rand.NewPCG(seed, 7))
			next := map[[2]int]int{} // by source and tag
			numberOf := func(st Status) int {
				at := [2]int{st.Source, st.Tag}
				i := 2*next[at] + st.Tag
				next[at]++
				return i
			}
			type found struct {
				*Matched
				number int
			}
			var matched []found
			receive := func(at int) error {
				m := matched[at]
				matched = slices.Delete(matched, at, at+1)
				buf := make([]int32, m.Count+at%2)
				n, err := RecvMatched(t.Context(), m.Matched, buf)
				want := slices.Repeat([]int32{int32(1000*m.Source + m.number)}, count(m.Source, m.number))
				if err != nil || !slices.Equal(buf[:n], want) {
					return fmt.Errorf("%+v, number %d: %d elements, want %d: %w", m.Status, m.number, n, len(want), err)
				}
				if _, err := RecvMatched(t.Context(), m.Matched, buf); !errors.Is(err, ErrArgument) {
					return fmt.Errorf("received twice: %w", err)
				}
				return nil
			}
			for range size * each {
				if rng.IntN(3) == 0 {
					got, st, err := RecvNew[int32](t.Context(), c, AnySource, AnyTag)
					i := numberOf(st)
					if err != nil || len(got) != count(st.Source, i) || len(got) > 0 && got[0] != int32(1000*st.Source+i) {
						return fmt.Errorf("%+v, number %d: %d elements: %w", st, i, len(got), err)
					}
					continue
				}
				m, err := ProbeMatched(t.Context(), c, AnySource, AnyTag)
				if err != nil {
					return err
				}
				if matched = append(matched, found{m, numberOf(m.Status)}); len(matched) > 4 {
					if err := receive(rng.IntN(len(matched))); err != nil {
						return err
					}
				}
			}
			if st, ok, err := TryProbe(c, AnySource, AnyTag); ok || err != nil {
				return fmt.Errorf("after all were found: %+v, %w", st, err)
			}
			for len(matched) > 0 {
				if err := receive(rng.IntN(len(matched))); err != nil {
					return err
				}
			}
			return WaitAll(t.Context(), sends...)
		})
	}
}

// TestMatchedUnreceived: Close names a message that was found and not received; a type that does not fit is an error.
func TestMatchedUnreceived(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			return errors.Join(Send(t.Context(), c, make([]uint16, 3), 0, 9), Barrier(t.Context(), c))
		}
		m, err := ProbeMatched(t.Context(), c, 1, AnyTag)
		if err == nil && (m.Status != Status{1, 9, 3}) {
			err = fmt.Errorf("found %+v", m.Status)
		}
		if err := errors.Join(err, Barrier(t.Context(), c)); err != nil {
			return err
		}
		want := "rank 1 has sent 3 uint16 with tag 9, which rank 0 has not received"
		if err := c.Close(); !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("Close: %w, want %q", err, want)
		}
		return nil
	})
	for _, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			return errors.Join(Send(t.Context(), c, []uint16{1}, 0, 9), Barrier(t.Context(), c))
		}
		m, err := ProbeMatched(t.Context(), c, 1, AnyTag)
		if err != nil {
			return err
		}
		_, err = RecvMatched(t.Context(), m, []float64{0})
		return err
	}) {
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "1 uint16 with tag 9") {
			t.Errorf("%v, want ErrMismatch", err)
		}
	}
}
