//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// Messages between every two ranks, on one host where some devices cannot read each other's memory, and on two hosts,
// of no element and of more than the links hold; exchanges in a cycle, each with another length; between collectives.
func TestDeviceMessages(t *testing.T) {
	const large = 1100003 // more than the slots between any two ranks
	for name, j := range map[string]fakegpu.Job{
		"1": {Hosts: []string{"dgx1v/0"}, Ranks: 1},
		"3": {Hosts: []string{"dgx1v/0-3"}, Ranks: 3, Env: []string{"TREERUN_FAKE_GPU_BROKEN=0-2"}},
		"4": {Hosts: []string{"dgx1v/0-1", "dgx1v/4-5"}, Ranks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			j.Env = append(j.Env, "TREERUN_FAKE_GPU_JITTER=30:7")
			if !asRanks(t, j) {
				return
			}
			messengers(t, large, func(ctx context.Context, m *messenger) error {
				for k, n := range []int{0, 1, 7, 100003, large} {
					if err := errors.Join(m.pairs(ctx, n, k), m.circle(ctx, n, k)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// pairs sends from every rank to every other one, in turn.
func (m *messenger) pairs(ctx context.Context, n, k int) error {
	for src := range m.Size() {
		for dst := range m.Size() {
			var err error
			switch {
			case src == dst:
				err = AllReduceDevice(ctx, m.Comm, m.s, m.out, m.out, Max)
			case m.Rank() == src:
				err = errors.Join(m.fill(ctx, n, dst, k), SendDevice(ctx, m.Comm, m.s, m.out.Slice(0, n), dst))
			case m.Rank() == dst:
				err = errors.Join(m.fill(ctx, n, dst, k), RecvDevice(ctx, m.Comm, m.s, m.into.Slice(0, n), src),
					m.check(ctx, n, src, k))
			}
			if err != nil {
				return fmt.Errorf("%d elements from %d to %d: %w", n, src, dst, err)
			}
		}
	}
	return nil
}

// circle passes messages around in both directions: each rank adds its number to the length that it sends.
func (m *messenger) circle(ctx context.Context, n, k int) error {
	size, me := m.Size(), m.Rank()
	for _, by := range []int{1, size - 1, 0} {
		to, from := (me+by)%size, (me+size-by)%size
		sends, receives := max(n-me, 0), max(n-from, 0)
		if err := errors.Join(m.fill(ctx, sends, to, k),
			SendRecvDevice(ctx, m.Comm, m.s, m.out.Slice(0, sends), to, m.into.Slice(0, receives), from),
			m.check(ctx, receives, from, k)); err != nil {
			return fmt.Errorf("%d elements, circle by %d: %w", n, by, err)
		}
	}
	return nil
}

// More messages than can be in flight, with the receiver ahead of the sender and behind it, and without a wait for any
// of them.
func TestManyDeviceMessages(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1", "TREERUN_FAKE_GPU_JITTER=10:3") {
		return
	}
	const n = 8
	total := 2*comm.InFlight + 50
	messengers(t, n*total, func(ctx context.Context, m *messenger) error {
		for i := range m.want {
			m.got[i], m.want[i] = int32(i), int32(i)
		}
		if err := m.out.CopyFrom(ctx, m.s, m.got); err != nil {
			return err
		}
		for late := range 2 {
			if err := Barrier(ctx, m.Comm); err != nil {
				return err
			}
			if m.Rank() == late {
				time.Sleep(300 * time.Millisecond)
			}
			for k := range total {
				var err error
				if part := [2]int{k * n, (k + 1) * n}; m.Rank() == 0 {
					err = SendDevice(ctx, m.Comm, m.s, m.out.Slice(part[0], part[1]), 1)
				} else {
					err = RecvDevice(ctx, m.Comm, m.s, m.into.Slice(part[0], part[1]), 0)
				}
				if err != nil {
					return err
				}
			}
			if err := errors.Join(m.SyncDevice(ctx, m.s), m.into.CopyTo(ctx, m.s, m.got)); err != nil {
				return err
			}
			if m.Rank() == 1 && !slices.Equal(m.got, m.want) {
				return errors.New("other contents")
			}
		}
		return nil
	})
}

// A message that the receiver expects otherwise is detected also after more messages than the ranks keep a note of.
func TestDeviceMessageMismatchAfterMany(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	messengers(t, 8, func(ctx context.Context, m *messenger) error {
		message := func(n int) error {
			if m.Rank() == 0 {
				return SendDevice(ctx, m.Comm, m.s, m.out.Slice(0, n), 1)
			}
			return RecvDevice(ctx, m.Comm, m.s, m.into.Slice(0, n), 0)
		}
		for range comm.InFlight + 10 {
			if err := message(8); err != nil {
				return err
			}
		}
		err := m.SyncDevice(ctx, m.s)
		if err == nil {
			err = message(4 + m.Rank())
		}
		if err == nil {
			err = m.SyncDevice(ctx, m.s)
		}
		if err == nil && m.Rank() == 0 { // the message may be in the slots: the next call reports it
			err = errors.Join(BarrierDevice(ctx, m.Comm, m.s), m.SyncDevice(ctx, m.s))
		}
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "#267 on devices (4 int32)") ||
			!strings.Contains(err.Error(), "#267 on devices (5 int32)") {
			return fmt.Errorf("want a mismatch of message 267, not %w", err)
		}
		return closed(m.Comm, ErrMismatch)
	})
}

// If the receiver expects another length or type, both ranks get an error that names the message, whichever comes
// first, and also if the message arrives while the other rank is in a collective.
func TestDeviceMessageMismatch(t *testing.T) {
	hosts := [][]string{{"dgx1v/0-1"}, {"dgx1v/0", "dgx1v/1"}}
	for name, w := range map[string]struct {
		send, recv int
		wide       bool // element type at the receiver
		late       int  // rank that is late
	}{
		"shorter":  {100, 101, false, 0},
		"empty":    {0, 1, false, 1},
		"nothing":  {500000, 0, false, 1},
		"longer":   {1000000, 1, false, 0},
		"type":     {100, 50, true, 1},
		"one more": {999999, 999998, false, 1},
	} {
		for i, on := range hosts {
			if (i+w.late)%2 > 0 && !testutil.Thorough() {
				continue
			}
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				if !asRanks(t, fakegpu.Job{Hosts: on, Ranks: 2 / len(on)}) {
					return
				}
				messengers(t, 1000000, func(ctx context.Context, m *messenger) (err error) {
					if m.Rank() == w.late {
						time.Sleep(100 * time.Millisecond)
					}
					switch {
					case m.Rank() == 0:
						err = SendDevice(ctx, m.Comm, m.s, m.out.Slice(0, w.send), 1)
					case w.wide:
						x, _ := cuda.Wrap[int64](m.s.Device(), m.into.Addr(), w.recv)
						err = RecvDevice(ctx, m.Comm, m.s, x, 0)
					default:
						err = RecvDevice(ctx, m.Comm, m.s, m.into.Slice(0, w.recv), 0)
					}
					if err == nil {
						err = m.SyncDevice(ctx, m.s)
					}
					if err == nil && m.Rank() == 0 { // the message may be in the slots: the next call reports it
						if err = BarrierDevice(ctx, m.Comm, m.s); err == nil {
							err = m.SyncDevice(ctx, m.s)
						}
					}
					if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), fmt.Sprintf("(%d int32)", w.send)) ||
						!strings.Contains(err.Error(), fmt.Sprintf("(%d int", w.recv)) {
						return fmt.Errorf("want a mismatch of %d and %d, not %w", w.send, w.recv, err)
					}
					return closed(m.Comm, ErrMismatch)
				})
			})
		}
	}
}

// An invalid message is an ErrArgument, and the communicator is unchanged, also before the devices are open.
func TestDeviceMessageArguments(t *testing.T) {
	if !asProcesses(t, 2, "dgx1v/0-1") {
		return
	}
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
		ctx := t.Context()
		x, err := cuda.Alloc[int32](s.Device(), 8)
		if err != nil {
			return err
		}
		if err := SendDevice(ctx, c, s, x, 1-c.Rank()); !errors.Is(err, ErrArgument) ||
			!strings.Contains(err.Error(), "BarrierDevice") {
			return fmt.Errorf("before the devices are open: %v", err)
		}
		if err := errors.Join(BarrierDevice(ctx, c, s), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		for want, err := range map[string]error{
			"rank 2 of 2":           SendDevice(ctx, c, s, x, 2),
			"rank -1 of 2":          RecvDevice(ctx, c, s, x, -1),
			"NoRank is for":         SendDevice(ctx, c, s, x, NoRank),
			"exchanges with itself": SendDevice(ctx, c, s, x, c.Rank()),
			"as many elements":      SendRecvDevice(ctx, c, s, x.Slice(0, 1), c.Rank(), x.Slice(1, 3), c.Rank()),
			"send and recv overlap": SendRecvDevice(ctx, c, s, x.Slice(0, 4), 1-c.Rank(), x.Slice(3, 8), 1-c.Rank()),
			"no stream":             RecvDevice(ctx, c, nil, x, 1-c.Rank()),
			"no elements of int16":  RecvDevice(ctx, c, s, cuda.Slice[int16]{}, 1-c.Rank()),
		} {
			if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("want %q, not %v", want, err)
			}
		}
		return errors.Join(SendRecvDevice(ctx, c, s, x.Slice(0, 4), 1-c.Rank(), x.Slice(4, 8), 1-c.Rank()),
			c.SyncDevice(ctx, s), Barrier(ctx, c), x.Free())
	})
}

// A message whose receiver closes, or never answers, ends with an error that names that rank: on one host and on two.
func TestDeviceMessageUnanswered(t *testing.T) {
	for name, w := range map[string]struct {
		sends, closes bool
		want          error
		text          string
	}{
		"sends to one that closes":    {true, true, ErrPeerClosed, "rank 1 closed its communicator"},
		"receives of one that closes": {false, true, ErrPeerClosed, "rank 1 closed its communicator"},
		"sends to one that sleeps":    {true, false, ErrStalled, "for rank 1 to receive it"},
		"receives of one that sleeps": {false, false, ErrStalled, "for rank 1 to send it"},
	} {
		for i, hosts := range [][]string{{"dgx1v/0-1"}, {"dgx1v/0", "dgx1v/1"}} {
			if w.sends && i > 0 && !testutil.Thorough() {
				continue
			}
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				if !asRanks(t, fakegpu.Job{Hosts: hosts, Ranks: 2 / len(hosts), Drops: true}) {
					return
				}
				var failure error
				err := tryMessengers(t, 3000000, func(ctx context.Context, m *messenger) (err error) {
					switch {
					case m.Rank() == 1 && w.closes:
						return m.Close()
					case m.Rank() == 1:
						for failed := false; !failed && ctx.Err() == nil; time.Sleep(time.Millisecond) {
							_, failed = m.Comm.in.Endpoint.Aborted()
						}
						return nil
					case w.sends:
						failure = SendDevice(ctx, m.Comm, m.s, m.out, 1)
					default:
						failure = RecvDevice(ctx, m.Comm, m.s, m.into, 1)
					}
					if failure == nil {
						failure = m.SyncDevice(ctx, m.s)
					}
					return nil
				}, WithStallTimeout(time.Second))
				if member.Rank() == 0 && (!errors.Is(failure, w.want) || !strings.Contains(failure.Error(), w.text)) {
					t.Errorf("want %v with %q, not %v", w.want, w.text, failure)
				}
				if err != nil && !errors.Is(err, w.want) {
					t.Error(err)
				}
			})
		}
	}
}

// If a rank closes and has not received a message, its Close reports it.
func TestDeviceMessageUnreceived(t *testing.T) {
	if !asRanks(t, fakegpu.Job{Hosts: []string{"dgx1v/0-1"}, Ranks: 2, Drops: true}) {
		return
	}
	messengers(t, 8, func(ctx context.Context, m *messenger) error {
		if m.Rank() == 0 {
			if err := errors.Join(SendDevice(ctx, m.Comm, m.s, m.out, 1), m.SyncDevice(ctx, m.s)); err != nil {
				return err
			}
		}
		err := Barrier(ctx, m.Comm)
		if err == nil { // rank 0 may learn of it there
			err = m.Close()
		}
		if m.Rank() == 0 && err == nil { // it was done before it could learn of it
			return nil
		}
		if !errors.Is(err, ErrPeerClosed) ||
			!strings.Contains(err.Error(), "had received message #1 on devices (8 int32) from rank 0") {
			return fmt.Errorf("want the message that is left, not %v", err)
		}
		return closed(m.Comm, ErrPeerClosed)
	})
}

// A rank that is killed in the middle of exchanges ends those of the others, which detect the death by themselves.
func TestDeviceMessageKilled(t *testing.T) {
	if !asRanks(t, fakegpu.Job{Hosts: []string{"dgx1v/0-3"}, Ranks: 4, Kills: true}) {
		return
	}
	messengers(t, 75_000, func(ctx context.Context, m *messenger) error {
		to, from := (m.Rank()+1)%m.Size(), (m.Rank()+m.Size()-1)%m.Size()
		err := fakegpu.Kill(t, m.Rank(), func(k int) error {
			err := SendRecvDevice(ctx, m.Comm, m.s, m.out, to, m.into, from)
			if err == nil && k%3 == 2 { // several in flight
				err = m.SyncDevice(ctx, m.s)
			}
			return err
		}, func(err error) error {
			var failed *RankError
			if !errors.As(err, &failed) || failed.Rank != 1 || !errors.Is(err, ErrRankLost) {
				return fmt.Errorf("want the loss of rank 1, not %w", err)
			}
			return m.s.Synchronize(ctx)
		})
		return errors.Join(err, closed(m.Comm, ErrRankLost))
	})
}
