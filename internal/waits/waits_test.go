package waits

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// await publishes a wait of j's rank in a call for the given ranks.
func await(j *Job, comm, in string, ranks ...int) *Wait {
	w := j.NewWait(comm, nil)
	var blockers []Blocker
	for _, r := range ranks {
		blockers = append(blockers, Blocker{Rank: r, What: "to send"})
	}
	w.Publish(in, time.Now(), blockers)
	return w
}

// A chain is followed to the rank that does not wait.
func TestChain(t *testing.T) {
	for n := 2; n <= 7; n++ {
		all := NewLocal(n).Jobs
		var first *Wait
		for r := range n - 1 {
			if w := await(all[r], "world", "Recv", r+1); r == 0 {
				first = w
			}
		}
		c := first.Why(t.Context())
		if c.Rank != n-1 || !strings.Contains(c.Text, fmt.Sprintf("rank %d", n-1)) ||
			!strings.Contains(c.Text, "is in no call of treerun") {
			t.Errorf("%d ranks: %+v, want rank %d, which is in no call", n, c, n-1)
		}
		if n == 4 && c.Text != "for rank 1 to send; rank 1 waits in Recv on world for rank 2, rank 2 in Recv on world for "+
			"rank 3, which is in no call of treerun" {
			t.Errorf("the chain reads %q", c.Text)
		}
	}
}

// A circle is reported as one, from its lowest rank on, by every rank; a rank that waits for the circle is not a part
// of it.
func TestCircle(t *testing.T) {
	for n := 2; n <= 5; n++ {
		all := NewLocal(n + 1).Jobs
		var every []*Wait
		for r := range n {
			every = append(every, await(all[r], "world", "Recv", (r+1)%n))
		}
		every = append(every, await(all[n], "world", "Recv", 1))
		for r, w := range every {
			c := w.Why(t.Context())
			if c.Rank != -1 || !strings.HasPrefix(c.Text, "rank 0 waits in Recv on world for rank 1, ") ||
				!strings.HasSuffix(c.Text, " for rank 0: a circle") {
				t.Errorf("circle of %d seen by rank %d: %+v", n, r, c)
			}
		}
	}
}

func TestOrderOfCommunicators(t *testing.T) {
	all := NewLocal(2).Jobs
	await(all[1], "b", "AllReduce #1", 0)
	c := await(all[0], "a", "AllReduce #1", 1).Why(t.Context())
	want := "rank 0 waits in AllReduce #1 on a for rank 1, rank 1 in AllReduce #1 on b for rank 0: a circle; ranks use " +
		"a and b in different order"
	if c.Rank != -1 || c.Text != want {
		t.Errorf("%+v, want %q", c, want)
	}
}

// A rank that opens the links of a part uses the communicator that creates the part.
func TestOrderOfParts(t *testing.T) {
	for other, want := range map[string]string{
		"world": " for rank 0: a circle",
		"b":     " for rank 0: a circle; ranks use b and world in different order",
	} {
		all := NewLocal(2).Jobs
		await(all[1], "world/split#1", "New: opening links", 0)
		if c := await(all[0], other, "Split", 1).Why(t.Context()); !strings.HasSuffix(c.Text, want) {
			t.Errorf("%q, want %q at its end", c.Text, want)
		}
	}
}

// Senders in a circle get a hint at the call that does not wait in this way.
func TestSendersInACircle(t *testing.T) {
	for in, want := range map[string]string{
		"Send #1":       "(hint: SendRecv sends and receives at once)",
		"SendDevice #1": "(hint: SendRecvDevice sends and receives at once)",
		"Recv #1":       "(hint: StartSend does not wait for the receiver, as a Send of more than 64 KiB does)",
	} {
		all := NewLocal(2).Jobs
		await(all[1], "a", in, 0)
		c := await(all[0], "a", "Send #2", 1).Why(t.Context())
		if !strings.Contains(c.Text, want) {
			t.Errorf("%s: %q, want %q", in, c.Text, want)
		}
	}
}

// Ranks that wait for each other within one collective make progress as soon as the missing rank enters it; in several
// calls, or with messages, they never do.
func TestOneCollective(t *testing.T) {
	for _, tc := range []struct {
		name         string
		first, other [2]string // communicator and call
		absent       bool
		rank         int
	}{
		{"one collective", [2]string{"a", "AllReduce #1"}, [2]string{"a", "AllReduce #1"}, true, 2},
		{"nobody is absent", [2]string{"a", "AllReduce #1"}, [2]string{"a", "AllReduce #1"}, false, -1},
		{"two communicators", [2]string{"a", "AllReduce #1"}, [2]string{"b", "AllReduce #1"}, true, -1},
		{"messages", [2]string{"a", "Recv"}, [2]string{"a", "Recv"}, true, -1},
	} {
		all := NewLocal(3).Jobs
		if !tc.absent {
			await(all[2], tc.first[0], tc.first[1], 0, 1)
		}
		await(all[1], tc.other[0], tc.other[1], 0, 2)
		c := await(all[0], tc.first[0], tc.first[1], 1, 2).Why(t.Context())
		if c.Rank != tc.rank || strings.HasSuffix(strings.SplitN(c.Text, ";", 2)[0], "a circle") != (tc.rank < 0) {
			t.Errorf("%s: %+v, want rank %d", tc.name, c, tc.rank)
		}
	}
	// A circle of two calls that leads through one of them twice.
	all := NewLocal(4).Jobs
	await(all[1], "a", "AllReduce #1", 0, 2, 3)
	await(all[2], "b", "AllReduce #1", 0)
	c := await(all[0], "a", "AllReduce #1", 1, 3).Why(t.Context())
	want := "rank 0 waits in AllReduce #1 on a for rank 1, rank 1 in AllReduce #1 on a for rank 2, rank 2 in AllReduce " +
		"#1 on b for rank 0: a circle; ranks use a and b in different order"
	if c.Rank != -1 || c.Text != want {
		t.Errorf("%+v, want %q", c, want)
	}
}

// A wait that was given up counts for ranks that were waiting at that time, and not for ranks that began to wait later:
// the rank may be anywhere by then.
func TestGivenUp(t *testing.T) {
	all := NewLocal(2).Jobs
	before := await(all[0], "a", "AllReduce #1", 1)
	other := await(all[1], "b", "AllReduce #1", 0)
	time.Sleep(2 * time.Millisecond)
	other.GiveUp()
	if c := before.Why(t.Context()); c.Rank != -1 || !strings.Contains(c.Text, "different order") {
		t.Errorf("the other's wait began before it was given up: %+v, want a circle", c)
	}
	before.Clear()
	time.Sleep(2 * time.Millisecond)
	after := await(all[0], "c", "AllReduce #1", 1)
	if c := after.Why(t.Context()); c.Rank != 1 || !strings.Contains(c.Text, "is in no call of treerun") {
		t.Errorf("the other's wait was given up before: %+v, want rank 1 in no call", c)
	}
	after.Renew("AllReduce #1", time.Hour, []Blocker{{Rank: 1, What: "to send"}})
	if c := after.Why(t.Context()); c.Rank != 1 {
		t.Errorf("renewed: %+v, want rank 1 in no call", c)
	}
}

// Waits of a rank on another communicator do not matter if it also waits on this one.
func TestOtherCommunicator(t *testing.T) {
	all := NewLocal(4).Jobs
	await(all[1], "b", "Barrier", 3)
	await(all[1], "a", "Barrier", 2)
	if c := await(all[0], "a", "Barrier", 1).Why(t.Context()); c.Rank != 2 {
		t.Errorf("%+v, want rank 2", c)
	}
}

// Of ranks in the same state one is named, and the others are counted.
func TestLikewise(t *testing.T) {
	for others, want := range []string{"", " (and another rank likewise)", " (and 2 other ranks likewise)"} {
		all := NewLocal(others + 2).Jobs
		c := await(all[0], "a", "Barrier", numbers.Below(others + 2)[1:]...).Why(t.Context())
		if is := "is in no call of treerun" + want; c.Is != is || !strings.HasSuffix(c.Text, "rank 1 "+is) {
			t.Errorf("%d others: %+v, want %q", others, c, is)
		}
	}
}

// A rank of a part of the job is reported by its number in the job.
func TestPart(t *testing.T) {
	all := NewLocal(6).Jobs
	w := all[5].NewWait("part", []int{5, 3})
	w.Publish("Recv", time.Now(), []Blocker{{Rank: 1, What: "to send"}})
	c := w.Why(t.Context())
	if c.Rank != 3 || w.Scope.Index(c.Rank) != 1 || w.Scope.Index(4) != -1 {
		t.Errorf("%+v, %d and %d", c, w.Scope.Index(3), w.Scope.Index(4))
	}
}

// A stopped process takes precedence over any other state, is not queried, and is found on any host; the state of a
// process on another host comes from its neighbors.
func TestStopped(t *testing.T) {
	all := NewLocal(5).Jobs
	hosts := []int{0, 0, 0, 1, 1}
	state := func(of int) func(int) (int, job.ProcState) {
		return func(r int) (int, job.ProcState) {
			switch {
			case hosts[r] != hosts[of]:
				return 0, job.ProcState{}
			case r == 2 || r == 4:
				return 100 + r, job.ProcState{Code: 'T', Signal: 19}
			}
			return 100 + r, job.ProcState{Code: 'S'}
		}
	}
	for r, j := range all {
		query := j.Query
		j.Query = func(ctx context.Context, rank, about int) (Status, error) {
			if rank == 2 && r != 3 {
				t.Errorf("rank %d queried rank 2, which is stopped", r)
			}
			if rank == 2 || rank == 4 {
				return Status{}, context.DeadlineExceeded
			}
			return query(ctx, rank, about)
		}
		j.State = state(r)
		j.HostOf = func(r int) int { return hosts[r] }
	}
	w := await(all[0], "world", "AllReduce", 1, 2)
	if c := w.Why(t.Context()); c.Rank != 2 || !strings.Contains(c.Text, "rank 2 is stopped by SIGSTOP (process 102)") {
		t.Errorf("%+v, want rank 2 stopped", c)
	}
	w.Clear()
	if c := await(all[0], "world", "Barrier", 4, 3).Why(t.Context()); c.Rank != 4 ||
		!strings.Contains(c.Text, "is stopped by SIGSTOP, according to rank 3") {
		t.Errorf("%+v, want rank 4 stopped, according to rank 3", c)
	}
}

// A rank that is in a call and has published no wait makes progress.
func TestMoving(t *testing.T) {
	all := NewLocal(2).Jobs
	all[1].NewWait("world", nil).SetBusy(func() bool { return true })
	c := await(all[0], "world", "Barrier", 1).Why(t.Context())
	if c.Rank != 1 || !strings.Contains(c.Text, "makes progress") {
		t.Errorf("%+v", c)
	}
}

// A rank that entered the call late, and itself waits a little later, is not blamed.
func TestLate(t *testing.T) {
	all := NewLocal(3).Jobs
	late := all[1].NewWait("world", nil)
	late.SetBusy(func() bool { return true })
	time.AfterFunc(busyTimeout/2, func() { late.Publish("Barrier", time.Now(), []Blocker{{Rank: 2, What: "to send"}}) })
	if c := await(all[0], "world", "Barrier", 1).Why(t.Context()); c.Rank != 2 {
		t.Errorf("%+v, want rank 2", c)
	}
}

// The stall timeout ends the context of a wait with the rank at fault, and not earlier.
func TestLimit(t *testing.T) {
	all := NewLocal(2).Jobs
	const limit = 50 * time.Millisecond
	w := all[0].NewWait("world", nil)
	w.Every, w.Limit = 0, limit
	ctx, cancel := w.Bound(t.Context())
	defer cancel()
	begin := time.Now()
	leave := w.Enter("AllGather", Blocker{Rank: 1, What: "to send"})
	defer leave()
	<-ctx.Done()
	var s *Stalled
	if err := context.Cause(ctx); !errors.Is(err, ErrStalled) || !errors.As(err, &s) || s.AtFault() != 1 ||
		time.Since(begin) < limit {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if s := w.Stalled(); s == nil || !strings.HasSuffix(s.Error(), " (--stall-timeout)") {
		t.Errorf("Stalled is %v", s)
	}
	quick := all[1].NewWait("world", nil)
	quick.Every, quick.Limit = 0, limit
	for begin := time.Now(); time.Since(begin) < 3*limit; {
		leave := quick.Enter("AllGather", Blocker{Rank: 0, What: "to send"})
		time.Sleep(time.Millisecond)
		leave()
	}
	if quick.Stalled() != nil {
		t.Error("many short waits count as a long one")
	}
}

// AtLeast extends the limit of an operation that is slow by itself, and of no other. Its reports have it.
func TestAtLeast(t *testing.T) {
	const limit = 20 * time.Millisecond
	j, least := NewLocal(2).Jobs[0], make(chan time.Duration, 100)
	j.Report = func(r job.Wait) bool {
		if r.For > 0 {
			least <- r.Least
		}
		return true
	}
	w := j.NewWait("c", nil)
	w.Every, w.Limit = limit, limit
	restore := w.AtLeast(time.Minute)
	w.Publish("New: measuring the links", time.Now(), nil)
	time.Sleep(3 * limit)
	if s := w.Stalled(); s != nil {
		t.Errorf("measuring ends with %q", s)
	}
	if got := <-least; got != time.Minute {
		t.Errorf("the report has the limit %v", got)
	}
	w.Clear()
	restore()
	w.Every = 0
	blockers := []Blocker{{Rank: 1, What: "to send"}}
	for begin := time.Now(); w.Publish("Recv", begin, blockers) == nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("no stall after restore")
		}
	}
	none := NewLocal(1).Jobs[0].NewWait("c", nil)
	defer none.AtLeast(time.Nanosecond)()
	none.Publish("Recv", time.Now().Add(-time.Hour), nil)
	time.Sleep(limit)
	if none.Stalled() != nil {
		t.Error("a wait without a limit has got one")
	}
}

// The largest Status that a rank makes passes the check of the others.
func TestLargestStatus(t *testing.T) {
	const size = 3
	waiting, busy := NewLocal(size).Jobs[0], NewLocal(size).Jobs[0]
	for range maxWaits + 1 {
		await(waiting, "world", strings.Repeat("x", maxText+1), 0, 1, 2)
		busy.NewWait("world", nil).SetBusy(func() bool { return true })
	}
	for _, s := range []Status{waiting.status(), busy.status()} {
		if err := s.Check(size); err != nil || len(s.Waits)+len(s.Busy) != maxWaits {
			t.Errorf("%d waits and %d calls: %v", len(s.Waits), len(s.Busy), err)
		}
	}
}

// A Status from another rank is checked.
func TestCheck(t *testing.T) {
	good := Status{Waits: []Waiting{{Scope: "world", In: "Barrier", For: []int{0, 2}}}, Busy: []string{"x"},
		State: "running"}
	if err := good.Check(3); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]Status{
		"a rank too many": {Waits: []Waiting{{For: []int{3}}}},
		"a negative rank": {Waits: []Waiting{{For: []int{-1}}}},
		"many ranks":      {Waits: []Waiting{{For: []int{0, 1, 2, 0}}}},
		"a long text":     {State: strings.Repeat("x", maxText+1)},
		"a newline":       {Busy: []string{"a\nb"}},
		"an escape":       {Waits: []Waiting{{In: "\x1b[2J"}}},
		"many calls":      {Busy: make([]string, maxWaits+1)},
		"given up later":  {Waits: []Waiting{{GaveUp: -1}}},
		"many waits":      {Waits: make([]Waiting, maxWaits+1)},
	} {
		if s.Check(3) == nil {
			t.Errorf("%s is let through", name)
		}
	}
	if s := cut(strings.Repeat("é", maxText)); len(s) > maxText || !strings.HasSuffix(s, "...") {
		t.Errorf("cut to %d bytes: %q", len(s), s)
	}
}

// A wait that makes progress right after it has reached the stall timeout does not end a later one.
func TestStalledThenMoved(t *testing.T) {
	w := NewLocal(2).Jobs[0].NewWait("world", nil)
	const limit = 50 * time.Millisecond
	w.Every, w.Limit = 0, limit
	blockers := []Blocker{{Rank: 1, What: "to send"}}
	begin := time.Now()
	for w.Publish("Recv", begin, blockers) == nil {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("no stall")
		}
		time.Sleep(time.Millisecond)
	}
	w.Clear() // the wait is satisfied
	if s := w.Publish("Recv", time.Now(), blockers); s != nil {
		t.Errorf("a wait that has just begun ends with %q", s)
	}
}

// Ranks may be queried while communicators are closed.
func TestStatusDuringClose(t *testing.T) {
	j := NewLocal(1).Jobs[0]
	stop := make(chan bool)
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					j.status()
				}
			}
		})
	}
	w := j.NewWait("world", nil)
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; {
		w.SetBusy(func() bool { return true })
		w.busy.Store(nil) // as Close does
	}
	close(stop)
	asking.Wait()
}

// The Status of a rank passes the Check of the others for any names of communicators.
func TestNames(t *testing.T) {
	for _, name := range []string{"a\nb", "\x1b[2J", "a\u00a0b", "\xff\xfe", strings.Repeat("\n", 2*maxText), "ö"} {
		all := NewLocal(2).Jobs
		await(all[0], name, "Barrier", 1)
		all[0].NewWait(name, nil).SetBusy(func() bool { return true })
		s := all[0].status()
		if err := s.Check(2); err != nil || len(s.Waits) != 1 || len(s.Busy) != 1 {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
}
