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

// wait polls pr until it is done or cannot go on.
func (w *Waiter) wait(ctx context.Context, pr *Program) error {
	idle := 0
	steps := pr.steps
	var asleep sleeper
	for {
		if idle < w.Spins {
			idle++
		} else if idle < w.Spins+w.Yields {
			idle++
			pr.ep.Bell().Yield()
		} else if err := asleep.sleep(ctx, w, pr); err != nil {
			return err
		}
		done, err := pr.poll()
		if err != nil || done {
			return err
		}
		if pr.steps != steps {
			steps, idle = pr.steps, 0
			asleep.since = time.Time{}
		} else if idle&63 == 63 {
			if _, aborted := pr.ep.Aborted(); aborted {
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
func (s *sleeper) sleep(ctx context.Context, w *Waiter, pr *Program) error {
	if _, aborted := pr.ep.Aborted(); aborted {
		return errAborted
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	if s.since.IsZero() {
		s.since, s.reported = now, 0
	}
	bell := pr.ep.Bell()
	steps := pr.steps
	bell.Prepare()
	done, err := pr.poll()
	if err != nil || done || pr.steps != steps {
		bell.Cancel()
		return err
	}
	if _, aborted := pr.ep.Aborted(); aborted {
		bell.Cancel()
		return errAborted
	}
	bell.Sleep(sleepMax)
	if time.Since(now) < sleepMax {
		return nil
	}
	if err := pr.compareCalls(pr.call.Header); err != nil {
		return err
	}
	if waited := time.Since(s.since); w.Stalled != nil && waited-s.reported >= w.StallEvery {
		s.reported = waited
		w.Stalled(pr.stall(waited))
	}
	return nil
}
