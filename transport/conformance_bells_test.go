package transport_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// testSleepers makes both sides sleep as often as they can: they poll only once before a sleep, so that every chunk and
// every released slot meets a bell that is being prepared, slept on or canceled. The sleeps do not end by themselves
// within Limit: one lost wake-up fails the test.
func testSleepers(t *testing.T, open opener) {
	rounds := testutil.Count(5000, 20000)
	all := opened(t, open, testutil.Pair(2, 64))
	turns := func(me int) func() error {
		e := all[me]
		s, r := mustSender(t, e, 0, 1-me), mustReceiver(t, e, 0, 1-me)
		return func() error {
			return each(2*rounds, func(i int) error {
				if i%2 != me {
					return testutil.Wait(e, 0, testutil.TryReceive(r, func(h call.Header, b []byte) error {
						return checkChunk(h, b, i, 8)
					}))
				}
				h := header(i)
				return testutil.Wait(e, 0, testutil.TrySend(s, &h, 8, fillWith(i)))
			})
		}
	}
	together(t, turns(0), turns(1))
}

// testBell checks that a ring is remembered from Prepare on and not before, that a sleep ends by itself, and that an
// old ring does not end a later sleep.
func testBell(t *testing.T, open opener) {
	all := opened(t, open, testutil.Pair(2, 64))
	b := all[0].Bell()
	asleep := func() time.Duration {
		start := time.Now()
		b.Sleep(30 * time.Millisecond)
		return time.Since(start)
	}
	b.Ring() // the owner is not about to sleep: the ring is forgotten
	b.Prepare()
	if d := asleep(); d < 25*time.Millisecond {
		t.Errorf("slept %v: a ring before Prepare ended the sleep", d)
	}
	b.Prepare()
	b.Ring()
	b.Ring()
	b.Sleep(testutil.Nap) // rung already, so it must return
	b.Prepare()
	if d := asleep(); d < 25*time.Millisecond {
		t.Errorf("slept %v: an old ring ended the sleep", d)
	}
	b.Prepare()
	b.Ring()
	b.Cancel()
	b.Prepare()
	if d := asleep(); d < 25*time.Millisecond {
		t.Errorf("slept %v: a canceled ring ended the sleep", d)
	}
	b.Prepare()
	b.Cancel()
	b.Yield()
	var woken atomic.Bool
	together(t, func() error {
		b.Prepare()
		b.Sleep(testutil.Nap)
		woken.Store(true)
		return nil
	}, func() error {
		time.Sleep(5 * time.Millisecond) // usually the owner sleeps by now
		for b.Ring(); !woken.Load(); b.Ring() {
			time.Sleep(50 * time.Millisecond) // or it had not begun to sleep
		}
		return nil
	})
}

// testSleepAny checks that one rank sleeps on the bells of several sets, of this transport and of shared memory, until
// any of them rings, and that an old ring does not end a later sleep.
func testSleepAny(t *testing.T, open opener) {
	var bells []transport.Bell
	for i, o := range []opener{open, open, overSharedMemory(false)} {
		bells = append(bells, opened(t, o, testutil.Pair(2, 64))[0].Bell())
		if i == 0 {
			continue
		}
		asleep := func(limit time.Duration) time.Duration {
			begin := time.Now()
			bells[i].SleepAny(bells, limit)
			return time.Since(begin)
		}
		prepare := func() {
			for _, b := range bells {
				b.Prepare()
			}
		}
		for k, b := range bells {
			prepare()
			b.Ring()
			asleep(testutil.Nap)
			prepare()
			var woken atomic.Bool
			together(t, func() error {
				asleep(testutil.Nap)
				woken.Store(true)
				return nil
			}, func() error {
				time.Sleep(5 * time.Millisecond) // usually the owner sleeps by now
				for b.Ring(); !woken.Load(); b.Ring() {
					time.Sleep(50 * time.Millisecond)
				}
				return nil
			})
			slept := time.Duration(0)
			for try := 0; try < 3 && slept < 25*time.Millisecond; try++ { // records of TLS itself may end one sleep
				b.Ring()
				prepare()
				slept = asleep(30 * time.Millisecond)
			}
			if i == 1 && slept < 25*time.Millisecond {
				t.Errorf("slept %v on %d bells: an old ring of number %d ended the sleep", slept, len(bells), k)
			}
			prepare()
			if d := asleep(0); d > testutil.Nap/2 {
				t.Errorf("a sleep that was canceled took %v", d)
			}
		}
	}
}

// testStatus checks that every rank sees every rank's latest call, never mixed with another.
func testStatus(t *testing.T, open opener) {
	all := opened(t, open, testutil.Pair(2, 64))
	for r, e := range all {
		for q := range all {
			got := e.Status(q)
			got.Sends = false // not known for ranks that share no memory
			if got != (transport.Status{}) {
				t.Errorf("rank %d sees %+v of rank %d before the first call", r, got, q)
			}
		}
	}
	const calls = 20000
	h := header(calls)
	together(t, func() error {
		for i := 1; i <= calls; i++ {
			h := header(i)
			all[0].Enter(&h)
		}
		return nil
	}, func() error {
		last := uint64(0)
		for last != h.Seq {
			got := all[1].Status(0).Call
			if got.Seq < last {
				return fmt.Errorf("call %d after call %d", got.Seq, last)
			}
			last = got.Seq
			if want := header(int((last - 1) / 0x1_0000_0001)); last != 0 && got != want {
				return fmt.Errorf("torn status %+v, want %+v", got, want)
			}
		}
		return nil
	})
	all[1].Sends()
	if got := all[0].Status(1); got != (transport.Status{Sends: true}) {
		t.Errorf("rank 1 has status %+v, it entered no call", got)
	}
}
