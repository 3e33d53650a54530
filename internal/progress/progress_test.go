package progress

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// site is the place where bells of a test sleep and ring. A sleep lasts until a ring: a lost ring hangs the test.
type site struct {
	mu   sync.Mutex
	cond sync.Cond
}

type bell struct {
	*site
	prepared bool
	yields   *atomic.Int64
}

func (b *bell) set(to bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prepared && !to {
		b.cond.Broadcast()
	}
	b.prepared = to
}

func (b *bell) Ring()                     { b.set(false) }
func (b *bell) Prepare()                  { b.set(true) }
func (b *bell) Cancel()                   { b.set(false) }
func (b *bell) Yield()                    { b.yields.Add(1) }
func (b *bell) Sleep(limit time.Duration) { b.SleepAny([]Bell{b}, limit) }
func (b *bell) SleepAny(all []Bell, limit time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for rung := limit <= 0; !rung; {
		for _, o := range all {
			rung = rung || !o.(*bell).prepared
		}
		if !rung {
			b.cond.Wait()
		}
	}
	for _, o := range all {
		o.(*bell).prepared = false
	}
}

// errand is a Task that waits for an event of its own.
type errand struct {
	bell   *bell
	come   atomic.Int64 // events so far
	want   int64
	idle   int
	inside atomic.Int32 // goroutines in its methods
	t      *testing.T
}

// begin and end check that one goroutine at a time is in a method.
func (e *errand) begin() {
	if e.inside.Add(1) > 1 {
		e.t.Error("two goroutines poll a Task")
	}
}

func (e *errand) end() { e.inside.Add(-1) }

func (e *errand) Poll() State {
	e.begin()
	defer e.end()
	switch e.idle++; {
	case e.come.Load() >= e.want:
		return Over
	case e.idle < 3:
		return Moving
	case e.idle < 8:
		return Idle
	}
	return Tired
}

func (e *errand) Prepare() time.Duration {
	e.begin()
	defer e.end()
	e.bell.Prepare()
	if e.come.Load() >= e.want {
		return 0
	}
	return time.Hour
}

func (e *errand) Woken() {
	e.begin()
	e.end()
}

func (e *errand) Bell() Bell { return e.bell }

// Goroutines wait side by side, each for events that come at any time, while others come and go: no event is missed,
// though sleeps end only by a ring, and no two goroutines poll one Task.
func TestWaitSideBySide(t *testing.T) {
	const goroutines, waits = 8, 2000
	for _, pollers := range []int{1, 3} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(pollers + 1))
		var p Rank
		where := &site{}
		where.cond.L = &where.mu
		var yields atomic.Int64
		var group sync.WaitGroup
		for g := range goroutines {
			e := &errand{bell: &bell{site: where, yields: &yields}, t: t}
			asked := make(chan int64, waits)
			group.Go(func() {
				var s Seat
				for i := range int64(waits) {
					e.want, e.idle = i+1, 0
					asked <- i
					held := i%2 == 0 && p.Hold()
					if held && e.come.Load() > i {
						p.Leave()
						continue
					}
					p.Wait(&s, e, held, pollers)
					if e.come.Load() < e.want {
						t.Errorf("goroutine %d: wait %d has ended before its event", g, i)
					}
				}
			})
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range waits {
					<-asked
					if rng.IntN(20) == 0 {
						time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
					}
					e.come.Add(1)
					e.bell.Ring()
				}
			})
		}
		group.Wait()
		if p.held.Load() || p.arrived.Load() != nil || len(p.others) > 0 {
			t.Errorf("after all waits: %+v", &p)
		}
	}
}

// A single goroutine that waits, on its own or in a Rank, allocates nothing.
func TestNoAllocation(t *testing.T) {
	var p Rank
	var s Seat
	where := &site{}
	where.cond.L = &where.mu
	e := &errand{bell: &bell{site: where, yields: new(atomic.Int64)}, t: t}
	for _, rank := range []*Rank{&p, nil} {
		if n := testing.AllocsPerRun(100, func() { e.idle = 0; rank.Wait(&s, e, false, 1) }); n > 0 {
			t.Errorf("%v allocations of a wait", n)
		}
	}
}
