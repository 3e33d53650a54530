package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// TestProbe: rank 0 receives messages of all ranks, including itself, as they arrive, by Probe, TryProbe or a Recv of
// any source or tag. Every message arrives once, complete, and in the order of its sender and tag; a Recv that was
// started before keeps its message.
func TestProbe(t *testing.T) {
	const size, each, tags = 4, 40, 3
	count := func(from, i int) int {
		n := (from*31 + i*i*7) % 300
		if i%9 == 4 {
			n *= 200 // in many chunks, which may be read in place
		}
		return n
	}
	for seed := range uint64(testutil.Count(3, 20)) {
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			sends := func() (all []Message, err error) {
				for i := range each {
					buf := slices.Repeat([]int32{int32(1000*c.Rank() + i)}, count(c.Rank(), i))
					m, err := StartSend(c, buf, 0, i%tags)
					if err != nil {
						return nil, err
					}
					all = append(all, m)
				}
				return all, nil
			}
			early := make([]int32, 5)
			var kept Message
			var err error
			if c.Rank() == 0 {
				kept, err = StartRecv(c, early, 1, tags) // a tag that AnyTag must not take from it
			}
			under, sendErr := sends()
			if err := errors.Join(err, sendErr); err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := Send(t.Context(), c, []int32{1, 2, 3, 4, 5}, 0, tags); err != nil {
					return err
				}
			}
			if c.Rank() == 0 {
				if err := takeAll(t, c, size*each, tags, count, rand.New(rand.NewPCG(seed, 1))); err != nil {
					return err
				}
				if err := kept.Wait(t.Context()); err != nil || early[4] != 5 {
					return fmt.Errorf("the Recv that was started first has %v: %w", early, err)
				}
				if st, found, err := TryProbe(c, AnySource, AnyTag); found || err != nil {
					return fmt.Errorf("after the last message there is %v: %w", st, err)
				}
			}
			for _, m := range under {
				if err := m.Wait(t.Context()); err != nil {
					return err
				}
			}
			return Barrier(t.Context(), c)
		})
	}
}

// takeAll receives the given number of messages, with the lengths of count.
func takeAll(t *testing.T, c *Comm, messages, tags int, count func(from, i int) int, rng *rand.Rand) error {
	next := make(map[[2]int]int) // by source and tag, the number of the next message
	for range messages {
		st, err := Probe(t.Context(), c, AnySource, AnyTag)
		if err != nil {
			return err
		}
		want := Status{st.Source, st.Tag, 0}
		key := [2]int{st.Source, st.Tag}
		if _, known := next[key]; !known {
			next[key] = st.Tag
		}
		i := next[key]
		next[key] += tags
		if want.Count = count(st.Source, i); st != want {
			return fmt.Errorf("found %v, want %v", st, want)
		}
		from, tag := st.Source, st.Tag
		if rng.IntN(2) == 0 { // probed again, and received by its own source and tag
			if again, found, err := TryProbe(c, from, tag); err != nil || !found || again != st {
				return fmt.Errorf("found %v, %v and then %v: %w", st, found, again, err)
			}
		}
		buf := make([]int32, st.Count+1)
		n, err := Recv(t.Context(), c, buf, from, tag)
		if err != nil || n != st.Count {
			return fmt.Errorf("%d elements of %v: %w", n, st, err)
		}
		if j := slices.IndexFunc(buf[:n], func(v int32) bool { return v != int32(1000*st.Source+i) }); j >= 0 {
			return fmt.Errorf("element %d of message %d of %v is %d", j, i, st, buf[j])
		}
	}
	return nil
}

// TestStatusCounts: a Probe counts elements of an Element, and bytes of other types; RecvNew always counts elements.
func TestStatusCounts(t *testing.T) {
	mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
		return errors.Join(statusCounts(t.Context(), c, [3]complex128{}, 3), statusCounts(t.Context(), c, [3]bool{}, 3),
			statusCounts(t.Context(), c, [3]Float16{}, 3), statusCounts(t.Context(), c, [3][5]byte{}, 15))
	})
}

func statusCounts[T any](ctx context.Context, c *Comm, sent [3]T, probed int) error {
	if c.Rank() == 1 {
		return Send(ctx, c, sent[:], 0, 0)
	}
	found, err := Probe(ctx, c, 1, 0)
	got, st, err2 := RecvNew[T](ctx, c, 1, 0)
	if found.Count != probed || len(got) != 3 || st.Count != 3 {
		return fmt.Errorf("%T: Probe has %d, want %d; RecvNew has %d of %d", sent, found.Count, probed, st.Count, len(got))
	}
	return errors.Join(err, err2)
}

// TestRecvOfAny: answers of workers arrive in any order, those of a fast one before those of a slow one.
func TestRecvOfAny(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() != 0 {
			if c.Rank() == 1 {
				time.Sleep(20 * time.Millisecond)
			}
			return errors.Join(Send(t.Context(), c, []int{c.Rank()}, 0, c.Rank()), Barrier(t.Context(), c))
		}
		var got []int
		for range 2 {
			buf := make([]int, 2)
			n, err := Recv(t.Context(), c, buf, AnySource, AnyTag)
			if err != nil {
				return err
			}
			got = append(got, buf[:n]...)
		}
		if slices.Sort(got); !slices.Equal(got, []int{1, 2}) {
			return fmt.Errorf("got %v", got)
		}
		return Barrier(t.Context(), c)
	})
}

// TestProbeFails: the error of a Probe that finds nothing names the source and tag, and the reason.
func TestProbeFails(t *testing.T) {
	t.Run("all others have closed", func(t *testing.T) {
		errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() != 0 {
				return nil
			}
			_, err := Probe(t.Context(), c, AnySource, 3)
			return err
		})
		if errs[0] == nil || !strings.Contains(errs[0].Error(), "Probe (any rank, tag 3)") ||
			!strings.Contains(errs[0].Error(), "closed its communicator") {
			t.Errorf("%v, want that nobody is left", errs[0])
		}
	})
	t.Run("one other has closed", func(t *testing.T) {
		mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
			switch c.Rank() {
			case 1:
				time.Sleep(50 * time.Millisecond)
				return Send(t.Context(), c, []int64{7}, 0, 3)
			case 0:
				_, err := Recv(t.Context(), c, make([]int64, 1), AnySource, 3)
				return err
			}
			return nil
		})
	})
	t.Run("its time is up", func(t *testing.T) {
		errs := runRanks(t, 3, func(_ *fakeWorld, c *Comm) error {
			if c.Rank() == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := Probe(ctx, c, 1, AnyTag)
				return err
			}
			return Barrier(t.Context(), c)
		})
		for r, err := range errs {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("rank %d: %v, want DeadlineExceeded", r, err)
			}
		}
		if !strings.Contains(errs[0].Error(), "Probe (rank 1, any tag)") {
			t.Errorf("%v does not name the Probe", errs[0])
		}
	})
	t.Run("arguments", func(t *testing.T) {
		mustRun(t, 2, func(_ *fakeWorld, c *Comm) error {
			for _, a := range [][2]int{{-2, 0}, {2, 0}, {0, -2}, {-1, 0}, {0, -1}, {AnyTag, AnySource}} {
				_, _, err1 := TryProbe(c, a[0], a[1])
				_, _, err4 := TryProbeMatched(c, a[0], a[1])
				_, err2 := Recv(t.Context(), c, []int{0}, a[0], a[1])
				_, err3 := StartRecv(c, []int{0}, a[0], a[1])
				for _, err := range []error{err1, err2, err3, err4} {
					if !errors.Is(err, ErrArgument) {
						return fmt.Errorf("rank %d, tag %d: %v", a[0], a[1], err)
					}
				}
				if a[0] == -1 && !strings.HasSuffix(err2.Error(), "rank -1 of 2, want 0..1 or AnySource (hint: in Go the rank "+
					"before this one is (rank-1+size) % size)") {
					return err2
				}
			}
			if err := Send(t.Context(), c, []int{0}, AnySource, 0); !errors.Is(err, ErrArgument) {
				return fmt.Errorf("Send to any: %v", err)
			}
			return nil
		})
	})
}

// The error of a Recv with AnySource that ends names it Recv.
func TestRecvFromAnybodyIsNamed(t *testing.T) {
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := Recv(ctx, c, make([]float32, 2), AnySource, AnyTag)
		return err
	})
	want := "Recv (2 float32, any rank, any tag)"
	for r, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "Probe") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The error of a ProbeFor whose context ends names it ProbeFor.
func TestProbeForIsNamed(t *testing.T) {
	errs := runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() > 0 {
			return Barrier(t.Context(), c)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _, err := ProbeFor(ctx, c, 1, AnyTag, time.Minute)
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ProbeFor (rank 1, any tag)") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestProbesOfClosedRanks: TryProbe and ProbeFor find nothing of ranks that have closed, and the communicator stays
// usable.
func TestProbesOfClosedRanks(t *testing.T) {
	mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() != 0 {
			return nil
		}
		for closed := false; !closed; time.Sleep(time.Millisecond) {
			closed = c.in.Endpoint.Status(1).Closed && c.in.Endpoint.Status(2).Closed
		}
		for _, from := range []int{AnySource, 1, 2} {
			if st, found, err := TryProbe(c, from, AnyTag); found || err != nil {
				return fmt.Errorf("TryProbe of %d: %v, %v, %w", from, st, found, err)
			}
			if m, found, err := TryProbeMatched(c, from, AnyTag); found || m != nil || err != nil {
				return fmt.Errorf("TryProbeMatched of %d: %v, %w", from, found, err)
			}
			if st, found, err := ProbeFor(t.Context(), c, from, 5, time.Millisecond); found || err != nil {
				return fmt.Errorf("ProbeFor of %d: %v, %v, %w", from, st, found, err)
			}
		}
		return nil
	})
}
