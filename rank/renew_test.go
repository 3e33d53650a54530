//go:build linux

package rank

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// overFor checks that the epoch of the given ranks is over because of a rank, and that Again is true for the errors of
// their calls.
func (l *lives) overFor(origins []int, bad int, words string) {
	l.j.t.Helper()
	for _, o := range origins {
		w := l.j.worlds[o]
		inTime(l.j.t, func() { <-w.Context().Done() })
		got, err := w.Failure()
		_, gatherErr := w.AllGather(context.Background(), nil)
		if got != bad || err == nil || err.Error() != words || !Again(err) || !Again(context.Cause(w.Context())) ||
			!Again(fmt.Errorf("step 7: %w", gatherErr)) {
			l.j.t.Fatalf("origin %d: rank %d failed: %v, context %v, gather: %v; want rank %d: %s", o, got, err,
				context.Cause(w.Context()), gatherErr, bad, words)
		}
	}
}

// A rank is lost, and the others continue without it.
func TestShrink(t *testing.T) {
	l := newLives(t, 4)
	l.j.start()
	l.check(0, []int{0, 1, 2, 3}, nil, nil)
	old := l.j.worlds[0]
	l.lose(1, false)
	l.overFor([]int{0, 2, 3}, 1, "killed by SIGKILL")
	l.j.noErrors(l.renew(t.Context()))
	l.check(1, []int{0, 2, 3}, []int{1}, nil)
	l.lose(0, false)
	l.overFor([]int{2, 3}, 0, "killed by SIGKILL")
	l.j.noErrors(l.renew(t.Context()))
	l.check(2, []int{2, 3}, []int{0}, nil)
	l.lose(3, false)
	l.j.noErrors(l.renew(t.Context()))
	l.check(3, []int{2}, []int{3}, nil) // a world of one
	if w := l.j.worlds[2]; w.LocalRank() != 0 || w.LocalSize() != 1 {
		t.Errorf("local rank %d of %d", w.LocalRank(), w.LocalSize())
	}
	// The World of an epoch that is over stays closed.
	if _, err := old.AllGather(t.Context(), nil); err == nil {
		t.Error("a World of epoch 0 still gathers")
	}
	if err := old.Close(); err != nil {
		t.Errorf("Close after Renew: %v", err)
	}
}

// A rank is lost, and its new process joins. The others have their numbers.
func TestRespawn(t *testing.T) {
	for _, lost := range [][]int{{0}, {2}, {0, 1}} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			l := newLives(t, 3)
			l.j.start()
			for _, r := range lost {
				l.lose(r, true)
			}
			l.j.noErrors(l.j.each(func(r int) (err error) {
				if l.j.worlds[r] == nil {
					return l.join(t.Context(), r)
				}
				l.j.worlds[r], err = l.j.worlds[r].Renew(t.Context())
				return err
			}))
			l.check(1, []int{0, 1, 2}, lost, lost)
			l.j.noErrors(l.renew(t.Context()))
			l.check(2, []int{0, 1, 2}, nil, nil)
		})
	}
}

// On several hosts, whose numbers are those of the ranks that are left.
func TestShrinkByAHost(t *testing.T) {
	l := newLives(t, 4)
	l.j.hosts = []int{0, 0, 1, 1}
	l.j.start()
	l.lose(0, false)
	l.lose(1, false)
	l.j.noErrors(l.renew(t.Context()))
	l.check(1, []int{2, 3}, []int{0, 1}, nil)
	for i, r := range []int{2, 3} {
		if w := l.j.worlds[r]; w.HostOf(1) != 0 || w.LocalRank() != i || w.LocalSize() != 2 {
			t.Errorf("rank %d is on host %d, local rank %d of %d", r, w.HostOf(1), w.LocalRank(), w.LocalSize())
		}
	}
}

// Renew without a failure ends the epoch for the others. The next one has the same ranks.
func TestRenewRevokes(t *testing.T) {
	l := newLives(t, 3)
	l.j.start()
	first := make(chan error, 1)
	go func() {
		var err error
		l.j.worlds[1], err = l.j.worlds[1].Renew(t.Context())
		first <- err
	}()
	l.overFor([]int{0, 2}, 1, "has left epoch 0")
	l.j.noErrors(l.j.each(func(r int) (err error) {
		if r != 1 {
			l.j.worlds[r], err = l.j.worlds[r].Renew(t.Context())
		}
		return err
	}))
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	l.check(1, []int{0, 1, 2}, nil, nil)
}

// A connection breaks between ranks that live: both ends call it a failure of the other one, and renew.
func TestBrokenConnection(t *testing.T) {
	l := newLives(t, 2)
	l.j.start()
	l.j.worlds[0].mesh.MarkFailed(1, "has lost its connection")
	_, err := l.j.worlds[0].AllGather(t.Context(), nil)
	if !Again(err) {
		t.Fatal(err)
	}
	l.j.noErrors(l.renew(t.Context()))
	l.check(1, []int{0, 1}, nil, nil)
}

// A rank is lost while the next epoch connects its ranks: Renew of those that cannot reach it returns with the one
// after it. The others have a World that fails.
func TestLossWhileAnEpochConnects(t *testing.T) {
	l := newLives(t, 4)
	l.j.start()
	cfg := l.j.worlds[3].cfg
	d, err := openDoor(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := d.introduce(cfg)
	d.ln.Close()
	if err != nil {
		t.Fatal(err)
	}
	l.lose(3, true)
	l.receive(3, &job.Message{Kind: job.Renew, Blob: blob}) // a process that nobody can reach
	time.AfterFunc(50*time.Millisecond, func() { l.report(3, false) })
	l.j.noErrors(l.j.each(func(r int) (err error) {
		if r == 3 {
			return nil
		}
		w := l.j.worlds[r]
		for err == nil && w.Epoch() < 2 {
			if w, err = w.Renew(t.Context()); err == nil && w.Epoch() == 1 {
				<-w.Failed()
			}
		}
		l.j.worlds[r] = w
		return err
	}))
	l.check(2, []int{0, 1, 2}, []int{3}, nil)
}

// A rank is lost before all have joined: the others begin with the next epoch.
func TestLossInInit(t *testing.T) {
	l := newLives(t, 3)
	ends := l.j.launch()
	t.Cleanup(l.j.close)
	time.AfterFunc(20*time.Millisecond, func() { l.report(1, false) })
	l.j.noErrors(l.j.each(func(r int) (err error) {
		if r == 1 {
			return ends[r].Close()
		}
		l.j.worlds[r], err = start(t.Context(), l.j.config(r, ends[r]))
		return err
	}))
	l.check(1, []int{0, 2}, []int{1}, nil)
}

// News of a rank that has ended before this one began is not lost.
func TestNewsBeforeInit(t *testing.T) {
	for range 50 {
		j := newTestJob(t, 2)
		ends := j.launch()
		j.tell(&job.Message{Kind: job.Exited, Rank: 1, Signal: 9})
		ends[1].Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := start(ctx, j.config(0, ends[0]))
		cancel()
		if !errors.Is(err, ErrFailed) {
			t.Fatalf("error %v, want news of rank 1", err)
		}
	}
}

// A rank that has closed its World is not expected, whether it does so before others renew or meanwhile.
func TestCloseAndRenew(t *testing.T) {
	l := newLives(t, 4)
	l.j.start()
	l.j.worlds[0].Close()
	time.AfterFunc(30*time.Millisecond, func() { l.j.worlds[2].Close() })
	l.j.noErrors(l.j.each(func(r int) (err error) {
		if r%2 == 1 {
			l.j.worlds[r], err = l.j.worlds[r].Renew(t.Context())
		}
		return err
	}))
	l.check(1, []int{1, 3}, nil, nil)
}

// The failure of a rank that has closed its World ends no epoch, and one that means Again is none of the job.
func TestFailureAfterClose(t *testing.T) {
	l := newLives(t, 3)
	l.j.start()
	l.j.worlds[1].Close()
	l.j.tell(&job.Message{Kind: job.Exited, Rank: 1, Code: 9, Closed: true})
	l.j.tell(&job.Message{Kind: job.Waiting})
	for _, r := range []int{0, 2} {
		w := l.j.worlds[r]
		inTime(t, func() {
			for <-w.Changed(); !w.Left(1); time.Sleep(time.Millisecond) { // it has read both, and that rank 1 has closed
			}
		})
		if bad, err := w.Failure(); err != nil {
			t.Errorf("rank %d: rank %d has failed: %v", r, bad, err)
		}
		reportFailure(w, fmt.Errorf("collective: Close: %w", ErrAgain))
	}
	reportFailure(l.j.worlds[2], errors.New("collective: Close: rank 0 has sent more"))
	l.j.close()
	for l.messages(job.Closing) < 3 {
		time.Sleep(time.Millisecond)
	}
	if n := l.messages(job.Failed); n != 1 {
		t.Errorf("%d failures were reported", n)
	}
}

// The end of its context ends Renew, and with it the World.
func TestRenewThatIsGivenUp(t *testing.T) {
	l := newLives(t, 2)
	l.j.start()
	w := l.j.worlds[0]
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("no time left"))
	defer cancel()
	inTime(t, func() {
		_, err := w.Renew(ctx)
		const want = "rank: Renew on rank 0: waiting for the next epoch: no time left"
		if err == nil || Again(err) || err.Error() != want {
			t.Errorf("Renew: %v", err)
		}
	})
	if _, err := w.Renew(t.Context()); !errors.Is(err, ErrClosed) || Again(err) {
		t.Errorf("Renew again: %v", err)
	}
}

// The launcher has the last word.
func TestNoMore(t *testing.T) {
	l := newLives(t, 3)
	l.j.start()
	l.lose(2, false)
	time.AfterFunc(20*time.Millisecond, func() {
		l.j.tell(&job.Message{Kind: job.NoMore, Text: "1 of 3 ranks is left"})
	})
	w := l.j.worlds[0]
	inTime(t, func() {
		_, err := w.Renew(t.Context())
		if !errors.Is(err, ErrRenew) || Again(err) || !strings.Contains(err.Error(), "1 of 3 ranks is left") {
			t.Errorf("Renew: %v", err)
		}
	})
	if _, err := l.j.worlds[1].Renew(t.Context()); !errors.Is(err, ErrRenew) { // after the message
		t.Errorf("Renew: %v", err)
	}
}

// A launcher that is gone cannot begin an epoch.
func TestRenewWithoutALauncher(t *testing.T) {
	l := newLives(t, 2)
	l.j.start()
	for _, c := range l.j.toRanks {
		c.Close()
	}
	for r, err := range l.renew(t.Context()) {
		if err == nil || Again(err) {
			t.Errorf("rank %d: Renew: %v", r, err)
		}
	}
	inTime(t, l.j.close)
}

// Renew where it has no meaning is an error that says why, and changes nothing.
func TestRenewThatCannotBe(t *testing.T) {
	j := newTestJob(t, 2).start()
	_, err := j.worlds[0].Renew(t.Context())
	if !errors.Is(err, ErrRenew) || !strings.Contains(err.Error(), "without treerun --on-failure respawn or shrink") {
		t.Errorf("in a job that ends with its first failure: %v", err)
	}
	if j.worlds[0].Renews() || Again(ErrAgain) {
		t.Error("another epoch may follow")
	}
	j.mustGather(constant(10))
	j.worlds[0].Close()
	_, err = j.worlds[1].AllGather(t.Context(), nil)
	if !errors.Is(err, ErrPeerClosed) || Again(err) {
		t.Errorf("gather: %v", err)
	}

	l := newLives(t, 1)
	ends := l.j.launch()
	cfg := l.j.config(0, ends[0])
	cfg.renews = false
	w, err := start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err = w.Renew(t.Context()); !errors.Is(err, ErrRenew) || !strings.Contains(err.Error(), "without rank.Worlds") {
		t.Errorf("without Worlds: %v", err)
	}

	l = newLives(t, 2)
	l.j.start()
	l.j.worlds[1].Close()
	if _, err = l.j.worlds[1].Renew(t.Context()); !errors.Is(err, ErrClosed) || Again(err) {
		t.Errorf("after Close: %v", err)
	}
}

// A new process that does not take part cannot join.
func TestJoinWithoutWorlds(t *testing.T) {
	l := newLives(t, 2)
	l.j.start()
	l.lose(1, true)
	cfg := l.j.config(1, l.connect(1))
	cfg.Joining, cfg.renews = true, false
	_, err := start(t.Context(), cfg)
	if !errors.Is(err, ErrRenew) || !strings.Contains(err.Error(), "without rank.Worlds") {
		t.Errorf("Init: %v", err)
	}
}

// A rank of an epoch that is over cannot reach those of the next one, at the ports at which they listen now.
func TestRankOfAnEarlierEpoch(t *testing.T) {
	l := newLives(t, 3)
	l.j.start()
	old := l.j.worlds[1].auth
	l.j.noErrors(l.renew(t.Context()))
	next := l.j.worlds[1]
	for to := range 3 {
		at := l.j.worlds[0].members.addresses(to)
		for _, ch := range []channel{listChannel, dataChannel, statusChannel} {
			conn, err := old.dial(t.Context(), at, to, ch)
			if err == nil {
				conn.Close()
				t.Fatalf("rank %d has let in a rank of the epoch before", to)
			}
			if u := netconn.Unreached(err); u == nil || !u.AllFailedWith(netconn.ErrKey) {
				t.Errorf("rank %d: %v", to, err)
			}
		}
	}
	conn, err := next.auth.dial(t.Context(), next.members.addresses(0), 0, listChannel)
	if err == nil { // it proves itself, and is closed: there are no lists in a later epoch
		defer conn.Close()
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from a list", n)
		}
	}
	l.check(1, []int{0, 1, 2}, nil, nil)
	if a, b := old.Current(), next.auth.Current(); a == b {
		t.Error("both epochs are the same attempt")
	}
}

// Changed is ready when ranks wait to be taken in after this epoch, not after another one.
func TestChanged(t *testing.T) {
	l := newLives(t, 2)
	l.j.start()
	l.j.tell(&job.Message{Kind: job.Waiting, Epoch: 1})
	l.j.tell(&job.Message{Kind: job.Waiting, Epoch: 0})
	l.j.tell(&job.Message{Kind: job.Waiting, Epoch: 0})
	for _, w := range l.j.worlds {
		inTime(t, func() { <-w.Changed() })
	}
	if !Again(fmt.Errorf("at step 3: %w", ErrAgain)) {
		t.Error("Again is false for ErrAgain")
	}
	l.j.noErrors(l.renew(t.Context()))
	for _, w := range l.j.worlds {
		select {
		case <-w.Changed():
			t.Error("Changed is ready in a new epoch")
		default:
		}
	}
}

// over is an error of another package that means the end of an epoch, or does not.
type over bool

func (o over) Error() string { return "over" }
func (o over) Again() bool   { return bool(o) }

func TestAgain(t *testing.T) {
	renewing.Store(true)
	defer renewing.Store(false)
	lost, own := &Error{Rank: 1, Err: ErrFailed, again: true}, &Error{Rank: 1, Err: ErrFailed}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errors.New("disk full"), false}, {ErrAgain, true}, {fmt.Errorf("at a boundary: %w", ErrAgain), true},
		{lost, true}, {own, false}, {fmt.Errorf("step 3: %w", lost), true}, {over(true), true}, {over(false), false},
		{errors.Join(errors.New("disk full"), over(true)), true}, {errors.Join(over(false), own), false},
		{fmt.Errorf("%w, then %w", own, lost), true}, {ErrRenew, false}, {ErrClosed, false}, {context.Canceled, false},
	} {
		if got := Again(c.err); got != c.want {
			t.Errorf("Again(%v) = %v", c.err, got)
		}
	}
	renewing.Store(false)
	if Again(lost) || Again(over(true)) {
		t.Error("Again is true in a job that does not continue")
	}
}
