package exec

import (
	"context"
	"time"
)

// Waiter is how one rank waits for its links: it polls, then yields the
// processor between polls, then sleeps on its bell. Which of these is right
// depends on how many ranks share the cores.
type Waiter struct {
	// Spins is how many polls in a row may find nothing before the rank starts
	// to yield. Right for ranks with a core of their own: a wake-up between
	// cores costs 10 to 30 us, a poll some nanoseconds.
	Spins int

	// Yields is how many polls with a yield between them follow before the rank
	// sleeps. Right for ranks that share cores: the other rank runs at once.
	Yields int

	// Stalled is called about every StallEvery while a call does not move. It
	// runs in the caller's goroutine. Nil for none.
	Stalled    func(Stall)
	StallEvery time.Duration
}

// sleepMax bounds one sleep. After each the rank looks around: whether the
// context has ended, whether the others are in the same call.
const sleepMax = 20 * time.Millisecond

// wait polls until done is set or k cannot go on.
func (w *Waiter) wait(ctx context.Context, k *Links, done *bool) error {
	idle := 0
	steps := k.steps
	var asleep sleeper
	for {
		if idle < w.Spins {
			idle++
		} else if idle < w.Spins+w.Yields {
			idle++
			k.ep.Bell().Yield()
		} else if err := asleep.sleep(ctx, w, k); err != nil {
			return err
		}
		if err := k.poll(); err != nil || *done {
			return err
		}
		if k.steps != steps {
			steps, idle = k.steps, 0
			asleep.since = time.Time{}
		} else if idle&63 == 63 {
			if _, aborted := k.ep.Aborted(); aborted {
				return errAborted
			}
		}
	}
}

// sleeper is the slow end of a wait: a rank for which nothing has come for
// longer than it cares to poll.
type sleeper struct {
	since    time.Time // when the sleeping began; zero while the call moves
	reported time.Duration
}

// sleep sleeps once, until the bell rings or for sleepMax, and looks around
// when nothing rang.
func (s *sleeper) sleep(ctx context.Context, w *Waiter, k *Links) error {
	if _, aborted := k.ep.Aborted(); aborted {
		return errAborted
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	if s.since.IsZero() {
		s.since, s.reported = now, 0
	}
	bell := k.ep.Bell()
	steps := k.steps
	bell.Prepare()
	if err := k.poll(); err != nil || k.Idle() || k.steps != steps {
		bell.Cancel()
		return err
	}
	if _, aborted := k.ep.Aborted(); aborted {
		bell.Cancel()
		return errAborted
	}
	bell.Sleep(sleepMax)
	if time.Since(now) < sleepMax {
		return nil
	}
	if k.first != nil {
		if err := k.compareCalls(k.first.Header); err != nil {
			return err
		}
	}
	if waited := time.Since(s.since); w.Stalled != nil && waited-s.reported >= w.StallEvery {
		s.reported = waited
		w.Stalled(k.stall(waited))
	}
	return nil
}
