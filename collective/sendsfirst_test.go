package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// numbered returns count equal numbers that identify the sender and the message.
func numbered(count, from, i int) []int32 {
	return slices.Repeat([]int32{int32(1000*from + i)}, count)
}

// takeNumbered receives messages 0 to messages-1 of all ranks.
func takeNumbered(ctx context.Context, c *Comm, messages int, count func(i int) int) error {
	for i := range messages {
		for from := range c.Size() {
			buf := make([]int32, count(i)+1)
			n, err := Recv(ctx, c, buf, from, i%3)
			if err != nil || !slices.Equal(buf[:n], numbered(count(i), from, i)) {
				return fmt.Errorf("message %d from %d: %d elements of %.8v: %w", i, from, n, buf, err)
			}
		}
	}
	return nil
}

// TestSendsBeforeReceives: ranks that send to all before they receive do not wait for each other, whether the messages
// are small or large, and get all of them, in order and whole.
func TestSendsBeforeReceives(t *testing.T) {
	for name, tc := range map[string]struct {
		messages int
		count    func(i int) int
	}{
		"small":        {1000, func(i int) int { return i % 9 }},
		"up to 64 KiB": {40, func(i int) int { return []int{16 << 10, 0, 3000, 8 << 10}[i%4] }},
		"large":        {1, func(int) int { return 1 << 19 }},
	} {
		for how, send := range map[string]func(ctx context.Context, c *Comm, x []int32, to, tag int) error{
			"Send": Send[int32],
			"StartSend": func(ctx context.Context, c *Comm, x []int32, to, tag int) error {
				m, err := StartSend(c, x, to, tag)
				return errors.Join(err, m.Wait(ctx))
			},
			"Test": func(_ context.Context, c *Comm, x []int32, to, tag int) error {
				m, err := StartSend(c, x, to, tag)
				for done := false; err == nil && !done; {
					done, err = m.Test()
				}
				return err
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				onEveryHost(t, func(c *Comm) error {
					x := make([]int32, 1<<19)
					for i := range tc.messages {
						for to := range c.Size() {
							x := x[:tc.count(i)]
							copy(x, numbered(len(x), c.Rank(), i))
							if name == "large" && to != (c.Rank()+1)%c.Size() {
								x = nil
							}
							if err := send(t.Context(), c, x, to, i%3); err != nil {
								return err
							}
						}
					}
					if name != "large" {
						return errors.Join(Barrier(t.Context(), c), takeNumbered(t.Context(), c, tc.messages, tc.count))
					}
					for from := range c.Size() {
						n, err := Recv(t.Context(), c, x, from, 0)
						if err != nil || n > 0 && (x[0] != int32(1000*from) || x[n-1] != x[0]) {
							return fmt.Errorf("%d elements from %d: %w", n, from, err)
						}
					}
					return nil
				})
			})
		}
	}
}

// TestKeptElsewhere: messages of a rank arrive even if the rank is no longer in a call of that communicator, and while
// it closes.
func TestKeptElsewhere(t *testing.T) {
	const messages = 300
	count := func(i int) int { return 1 + i%50 }
	sendAll := func(ctx context.Context, c *Comm) error {
		for i := range messages {
			for to := range c.Size() {
				if err := Send(ctx, c, numbered(count(i), c.Rank(), i), to, i%3); err != nil {
					return err
				}
			}
		}
		return nil
	}
	t.Run("in another communicator", func(t *testing.T) {
		onEveryHost(t, func(c *Comm) error {
			d, err := c.Dup(t.Context())
			if err != nil {
				return err
			}
			err = sendAll(t.Context(), c)
			if c.Rank() == 0 {
				return errors.Join(err, Barrier(t.Context(), d), takeNumbered(t.Context(), c, messages, count), d.Close())
			}
			return errors.Join(err, takeNumbered(t.Context(), c, messages, count), Barrier(t.Context(), d), d.Close())
		})
	})
	t.Run("in Close", func(t *testing.T) {
		onEveryHost(t, func(c *Comm) error {
			if c.Rank() == 0 {
				return errors.Join(takeFromItself(t.Context(), c), sendTo(t.Context(), c, messages, count))
			}
			time.Sleep(20 * time.Millisecond)
			for i := range messages {
				buf := make([]int32, count(i))
				if err := received(t.Context(), c, buf, 0, 1); err != nil || !slices.Equal(buf, numbered(count(i), 0, i)) {
					return fmt.Errorf("message %d: %v: %w", i, buf, err)
				}
			}
			return nil
		})
	})
}

// takeFromItself sends a message to this rank, and receives it.
func takeFromItself(ctx context.Context, c *Comm) error {
	return errors.Join(Send(ctx, c, []int8{1}, c.Rank(), 9), received(ctx, c, make([]int8, 1), c.Rank(), 9))
}

// sendTo sends messages to all other ranks.
func sendTo(ctx context.Context, c *Comm, messages int, count func(i int) int) error {
	for i := range messages {
		for to := range c.Size() {
			if to == c.Rank() {
				continue
			}
			if err := Send(ctx, c, numbered(count(i), c.Rank(), i), to, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestKeptIsNotReceived: Close of at least one rank reports a message that was sent and not received, whether both
// close at once or one later.
func TestKeptIsNotReceived(t *testing.T) {
	for _, hosts := range [][]int{{0, 0}, {0, 1}} {
		for name, late := range map[string][2]time.Duration{
			"at once": {}, "the sender first": {0, 50e6}, "the receiver first": {50e6, 0}} {
			for _, both := range []bool{false, true} {
				t.Run(fmt.Sprint(hosts, name, both), func(t *testing.T) {
					errs := runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
						if c.Rank() == 0 || both {
							err := sendTo(t.Context(), c, 300, func(int) int { return 500 })
							if errors.Is(err, ErrPeerClosed) { // before the last of them
								return fmt.Errorf("%w: has sent 500 int32 with tag 1, which rank 1 has", ErrMismatch)
							}
						}
						time.Sleep(late[c.Rank()])
						return c.Close()
					}, WithGraph(testutil.GraphOn(hosts)))
					err := errors.Join(errs...)
					want := "has sent 500 int32 with tag 1, which rank "
					if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want that messages were not received", err)
					}
				})
			}
		}
	}
}

// TestKeptIsBounded: a Send waits once this rank keeps 64 MiB, and the receiver, which waits in another call, has
// received as much. Its error names the cycle.
func TestKeptIsBounded(t *testing.T) {
	for r, err := range runRanks(t, 2, func(_ *fakeWorld, c *Comm) error {
		if c.Rank() == 1 {
			return Barrier(t.Context(), c)
		}
		x, before := make([]byte, 60<<10), 64<<20/(60<<10)
		for i := range 3 * before {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			err := Send(ctx, c, x, 1, 0)
			if cancel(); err != nil {
				if least := 3 * before / 2; i < least || i > 2*before+50 {
					t.Errorf("the Send that waits is number %d, want %d", i, 2*before)
				}
				return err
			}
		}
		return errors.New("nothing waits")
	}) {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(),
			"rank 0 waits in Send (61440 uint8, tag 0) on world for rank 1, rank 1 in Barrier #1 on world for rank 0: a "+
				"circle") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// TestEmptyMessagesHaveNoType: a receive of any type matches them, posted before they arrive or after.
func TestEmptyMessagesHaveNoType(t *testing.T) {
	onEveryHost(t, func(c *Comm) error {
		to, from := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		early, err := StartRecv(c, make([]float64, 3), from, 5)
		if err != nil {
			return err
		}
		for range 3 {
			if err := Send[int64](t.Context(), c, nil, to, 5); err != nil {
				return err
			}
		}
		n, err1 := Recv(t.Context(), c, make([]uint8, 2), from, 5)
		m, err2 := Recv[float32](t.Context(), c, nil, AnySource, AnyTag)
		if err := errors.Join(early.Wait(t.Context()), err1, err2); err != nil || n != 0 || m != 0 {
			return fmt.Errorf("%d and %d elements: %w", n, m, err)
		}
		if st := early.Status(); st != (Status{from, 5, 0}) {
			return fmt.Errorf("got %v", st)
		}
		return nil
	})
}

// TestStartRecvOfAny: receives of any rank and tag get the messages in the order in which they began, and of each
// sender in the order sent. Their Status does not change with later messages.
func TestStartRecvOfAny(t *testing.T) {
	const each = 30
	onEveryHost(t, func(c *Comm) error {
		var got []Message
		var bufs [][]int32
		begin := func(n int) error {
			for range n {
				bufs = append(bufs, make([]int32, each))
				m, err := StartRecv(c, bufs[len(bufs)-1], AnySource, AnyTag)
				if got = append(got, m); err != nil {
					return err
				}
			}
			return nil
		}
		if err := begin(each); err != nil {
			return err
		}
		for i := range each {
			for to := range c.Size() {
				if err := Send(t.Context(), c, numbered(i, c.Rank(), i), to, i); err != nil {
					return err
				}
			}
		}
		if err := begin(each * (c.Size() - 1)); err != nil {
			return err
		}
		for _, m := range got {
			if err := m.Wait(t.Context()); err != nil {
				return err
			}
		}
		next := make([]int, c.Size())
		for i, m := range got {
			st := m.Status()
			want := Status{st.Source, next[st.Source], next[st.Source]}
			next[st.Source]++
			if st != want || !slices.Equal(bufs[i][:st.Count], numbered(st.Count, st.Source, st.Tag)) {
				return fmt.Errorf("receive %d got %v with %v, want %v", i, st, bufs[i][:st.Count], want)
			}
		}
		for _, calls := range c.Stats().Calls {
			if calls.Call == "Recv" && calls.Bytes != int64(c.Size()*4*each*(each-1)/2) {
				return fmt.Errorf("%+v", calls)
			}
		}
		return nil
	})
}

// TestProbeFor: a goroutine of rank 0 serves the others on a communicator of its own, until it is stopped, while all
// ranks make other calls on the first one.
func TestProbeFor(t *testing.T) {
	serve := func(d *Comm, stop chan struct{}) error {
		for n := 0; ; {
			st, found, err := ProbeFor(t.Context(), d, AnySource, 1, time.Millisecond)
			if err != nil {
				return err
			}
			if found {
				x := make([]int, st.Count)
				err := errors.Join(received(t.Context(), d, x, st.Source, 1), Send(t.Context(), d, append(x, n), st.Source, 2))
				if n++; err != nil {
					return err
				}
				continue
			}
			select {
			case <-stop:
				if n != d.Size()-1 {
					return fmt.Errorf("%d were served", n)
				}
				return nil
			default:
			}
		}
	}
	onEveryHost(t, func(c *Comm) error {
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		stop, served := make(chan struct{}), make(chan error, 1)
		if c.Rank() == 0 {
			go func() { served <- serve(d, stop) }()
		} else {
			served <- nil
			x := make([]int, 3)
			err = errors.Join(Send(t.Context(), d, []int{7, c.Rank()}, 0, 1), received(t.Context(), d, x, 0, 2))
			if err != nil || x[1] != c.Rank() || x[2] >= c.Size() {
				return fmt.Errorf("%v: %w", x, err)
			}
		}
		for range 50 {
			err = errors.Join(err, Barrier(t.Context(), c))
		}
		close(stop)
		return errors.Join(err, <-served, d.Close())
	})
}
