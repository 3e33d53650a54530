package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	for want, st := range map[string]any{
		"rank 1, tag 9, count 3":      &Matched{Status: Status{1, 9, 3}},
		"NoRank, tag 9, count 0":      Status{NoRank, 9, 0},
		"[AnySource, tag 0, count 0]": []Status{{Source: AnySource}},
	} {
		if got := fmt.Sprint(st); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
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

// TestServersOfOneComm: two goroutines of rank 0 serve requests of other ranks on one communicator. One answers while
// the other looks for requests, and each receives the requests that it has found.
func TestServersOfOneComm(t *testing.T) {
	const requests, endTag = 120, 9
	lengthOf := func(rank, i int) int { return []int{1 + rank, 700, 1 + 20_000*(i%3)}[i%3] }
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() > 0 {
			for i := range requests {
				n := lengthOf(c.Rank(), i)
				answer := make([]int64, n+1)
				if err := Send(t.Context(), c, slices.Repeat([]int64{int64(i)}, n), 0, i%4); err != nil {
					return err
				}
				got, err := Recv(t.Context(), c, answer, 0, i%4)
				if err != nil || !slices.Equal(answer[:got], slices.Repeat([]int64{-int64(i)}, n)) {
					return fmt.Errorf("request %d has an answer of %d elements: %w", i, got, err)
				}
			}
			return Send[int64](t.Context(), c, nil, 0, endTag)
		}
		s := server{c: c, endTag: endTag}
		s.clients.Store(2)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- s.serve(t.Context()) }()
		}
		return errors.Join(<-errs, <-errs)
	})
}

// server answers requests with their negative.
type server struct {
	c       *Comm
	endTag  int
	clients atomic.Int32 // that have not sent a message with endTag
	mu      sync.Mutex   // held during a call of c
}

// call makes a call of the communicator, one at a time.
func (s *server) call(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *server) serve(ctx context.Context) error {
	for s.clients.Load() > 0 {
		var m *Matched
		var found bool
		err := s.call(func() (err error) {
			m, found, err = TryProbeMatched(s.c, AnySource, AnyTag)
			return err
		})
		if !found && err == nil {
			time.Sleep(20 * time.Microsecond)
			continue
		}
		if err != nil {
			return err
		}
		request := make([]int64, m.Count)
		if err := s.call(func() (err error) {
			_, err = RecvMatched(ctx, m, request)
			return err
		}); err != nil {
			return err
		}
		if m.Tag == s.endTag {
			s.clients.Add(-1)
			continue
		}
		for i := range request {
			request[i] = -request[i]
		}
		if err := s.call(func() error { return Send(ctx, s.c, request, m.Source, m.Tag) }); err != nil {
			return err
		}
	}
	return nil
}
