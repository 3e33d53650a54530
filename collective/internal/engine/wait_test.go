package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/progress"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// A rank spinsLong only where the root can send all without it, and as long as a chunk
// takes at the most.
func TestPolls(t *testing.T) {
	layout := transport.Layout{Size: 3, Slots: 4, SlotBytes: 4 << 10}
	eps, err := connectShm(layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range eps {
		defer ep.Close()
	}
	k := New(eps[1], 1, &layout, -1, true, Lending{From: 8 << 10})
	const spins = 1
	for _, x := range []struct {
		name      string
		spinsLong bool
		kind      plan.Kind
		root      int32
		bytes     uint64
		wide      bool
		want      int
	}{
		{"a Broadcast", true, plan.Broadcast, 0, 1 << 10, false, spinPolls + 16},
		{"a Scatter", true, plan.Scatter, 0, 1 << 10, false, spinPolls + 16},
		{"of several chunks", true, plan.Broadcast, 0, 10 << 10, false, spinPolls + 64},
		{"of more than the slots hold", true, plan.Broadcast, 0, 11 << 10, false, spins},
		{"whose root this rank is", true, plan.Broadcast, 1, 1 << 10, false, spins},
		{"that is read from the root's memory", true, plan.Scatter, 0, 1 << 10, true, spins},
		{"between ranks with cores of their own", false, plan.Broadcast, 0, 1 << 10, false, spins},
		{"a Gather", true, plan.Gather, 0, 1 << 10, false, spins},
		{"an AllReduce", true, plan.AllReduce, -1, 1 << 10, false, spins},
	} {
		w := &Waiter{Spins: spins, SpinsLong: x.spinsLong}
		c := &Call{Args: Args{ID: call.ID{Kind: call.Kind(x.kind), Root: x.root, Count: x.bytes / 4},
			Work: kernel.Work{DType: kernel.Float32}}, wide: x.wide}
		if got := w.polls(k, c); got != x.want {
			t.Errorf("%s: %d polls, want %d", x.name, got, x.want)
		}
	}
}

// slowEndpoint is an Endpoint of a rank whose core is shared with others.
type slowEndpoint struct{ transport.Endpoint }

func (e slowEndpoint) Bell() transport.Bell { return slowBell{e.Endpoint.Bell()} }

type slowBell struct{ transport.Bell }

func (slowBell) Yield() { time.Sleep(5 * time.Millisecond) }

// A wait is published soon, also where every yield takes long: another rank whose time is up learns the cause of this
// one's wait.
func TestLongYields(t *testing.T) {
	layout := transport.Layout{Size: 2, Slots: 2, SlotBytes: 256}
	eps, err := connectShm(layout)
	if err != nil {
		t.Fatal(err)
	}
	for _, ep := range eps {
		defer ep.Close()
	}
	k := New(slowEndpoint{eps[0]}, 0, &layout, 0, false, Lending{From: 8 << 10})
	const limit = time.Second // 2000 yields take 10
	w := &Waiter{Spins: 1, Yields: 2000, Watch: waits.NewLocal(2).Jobs[0].NewWait("world", nil)}
	ctx, cancel := context.WithTimeout(t.Context(), 10*limit)
	defer cancel()
	go func() {
		for begin := time.Now(); w.Watch.Doing() == "" && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if time.Since(begin) > limit {
				t.Errorf("not published after %v", limit)
				break
			}
		}
		cancel()
	}()
	p := message(1, 0, 1, make([]byte, 4))
	if err := k.StartMessage(p, false); err != nil {
		t.Fatal(err)
	}
	if f, failed := k.WaitMessage(ctx, p, w); !failed {
		t.Errorf("a message that nobody sent has come: %+v", f)
	}
}

// failingBell reports a failure of another rank during its third Yield.
type failingBell struct {
	transport.Bell
	ep     transport.Endpoint
	yields *int
}

func (b failingBell) Yield() {
	if *b.yields++; *b.yields == 3 {
		b.ep.Abort(transport.Faultf(transport.FaultLost, 1, "rank 1 is gone"))
	}
}

type failingEndpoint struct {
	transport.Endpoint
	yields *int
}

func (e failingEndpoint) Bell() transport.Bell {
	return failingBell{e.Endpoint.Bell(), e.Endpoint, e.yields}
}

// A wait ends with the yield during which a failure is reported: on a busy host each may take milliseconds.
func TestFailureDuringYields(t *testing.T) {
	layout := transport.Layout{Size: 2, Slots: 2, SlotBytes: 256}
	for _, progress := range []*progress.Rank{nil, {}} {
		for _, spins := range []int{1, 100} {
			eps, err := connectShm(layout)
			if err != nil {
				t.Fatal(err)
			}
			yields := 0
			k := New(failingEndpoint{eps[0], &yields}, 0, &layout, 0, false, Lending{From: 8 << 10})
			p := message(1, 0, 1, make([]byte, 4))
			if err := k.StartMessage(p, false); err != nil {
				t.Fatal(err)
			}
			f, failed := k.WaitMessage(t.Context(), p, &Waiter{Spins: spins, Yields: 2000, Progress: progress})
			if !failed || f.Rank != 1 || yields != 3 {
				t.Errorf("%d spins: %v, %+v after %d yields, want the failure after 3", spins, failed, f, yields)
			}
			for _, ep := range eps {
				ep.Close()
			}
		}
	}
}

// A rank that sleeps because it was tired of yielding, and is woken up at once, does not
// look around: that compares calls with all others, and is for waits that are long.
func TestShortSleepAfterYields(t *testing.T) {
	for r, err := range everyPair(t, 2, 2, 256, func(k *Engine, rank int, w *Waiter) error {
		if rank == 1 {
			return nil
		}
		if err := k.StartMessage(message(1, 0, 1, make([]byte, 4)), false); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
				k.ep.Bell().Ring()
			}
		}()
		w.Watch = waits.NewLocal(2).Jobs[0].NewWait("world", nil)
		for range 20 {
			asleep := Sleeper{since: time.Now()} // as Tired sets it
			begin := time.Now()
			if err := asleep.Sleep(ctx, k.ep, w.Watch, (*waiting)(k)); err != nil {
				return err
			}
			if time.Since(begin) < sleepMax && asleep.published {
				return errors.New("a sleep of a moment was published")
			}
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The time of a wait starts again when the call has moved: a call that takes long, but moves, is no stall.
func TestMovedBeginsAnew(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	s := Sleeper{since: long, looked: long, looks: 2}
	s.End(nil)
	if s != (Sleeper{}) {
		t.Errorf("after a move: %+v", s)
	}
}

// alarm is a Bell that notes the calls of its methods.
type alarm struct {
	transport.Bell
	calls []string
}

func (a *alarm) Prepare()            { a.calls = append(a.calls, "prepare") }
func (a *alarm) Cancel()             { a.calls = append(a.calls, "cancel") }
func (a *alarm) Sleep(time.Duration) { a.calls = append(a.calls, "sleep") }

type quietEndpoint struct {
	transport.Endpoint
	bell *alarm
}

func (q quietEndpoint) Bell() transport.Bell             { return q.bell }
func (q quietEndpoint) Aborted() (transport.Fault, bool) { return transport.Fault{}, false }

// late is a Waiting for which something comes while the bell is prepared.
type late struct {
	Waiting
	bell *alarm
}

func (l late) Poll() (bool, error) {
	l.bell.calls = append(l.bell.calls, "poll")
	return true, nil
}

// A message that comes between the last poll and the sleep, before its bell would have an effect, is seen by a poll
// after the bell was prepared.
func TestNoWakeUpIsLost(t *testing.T) {
	bell := &alarm{}
	if err := new(Sleeper).Sleep(t.Context(), quietEndpoint{bell: bell}, nil, late{bell: bell}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"prepare", "poll", "cancel"}; !slices.Equal(bell.calls, want) {
		t.Errorf("asked of the bell: %q, want %q", bell.calls, want)
	}
}

// yieldsBell counts yields.
type yieldsBell struct {
	transport.Bell
	yields *int
}

func (b yieldsBell) Yield() { *b.yields++ }

type yieldsEndpoint struct {
	transport.Endpoint
	yields *int
}

func (e yieldsEndpoint) Bell() transport.Bell { return yieldsBell{e.Endpoint.Bell(), e.yields} }

// A rank whose core is crowded sleeps in place of yields.
func TestCrowdedCore(t *testing.T) {
	layout := transport.Layout{Size: 2, Slots: 2, SlotBytes: 256}
	for crowded, most := range map[bool]int{false: 500, true: 20} {
		eps, err := connectShm(layout)
		if err != nil {
			t.Fatal(err)
		}
		yields := 0
		k := New(yieldsEndpoint{eps[0], &yields}, 0, &layout, 0, false, Lending{From: 8 << 10})
		w := &Waiter{Spins: 1, Yields: 400, Crowded: func() bool { return crowded }}
		p := message(1, 0, 1, make([]byte, 4))
		if err := k.StartMessage(p, false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _ = k.WaitMessage(ctx, p, w)
		cancel()
		if yields > most || !crowded && yields < 400 {
			t.Errorf("crowded: %v: %d yields", crowded, yields)
		}
		for _, ep := range eps {
			ep.Close()
		}
	}
}
