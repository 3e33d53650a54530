package comm

import (
	"runtime"
	"time"

	"github.com/treerun/treerun/internal/backoff"
	"github.com/treerun/treerun/transport"
)

// Large calls and messages under way also move while the program is in no call of the communicator, in a goroutine that
// runs as long as there are any. Small ones, which a Wait ends in less time than it takes to wake that goroutine, do
// not start it. It polls where the program has left its core, as it does while it waits for a GPU. Where the program
// computes it looks on, as its gain would be the program's loss. If it was of no use, since the program computed
// or waited for its call at once, only every asideTry-th large call has it: the same on all ranks, which need it
// together.
const (
	asideFrom  = 512 << 10              // bytes of a large call
	asideTry   = 16                     // of large calls, where the goroutine was of no use, one has it
	asideSpin  = 200 * time.Microsecond // polls without a nap after the latest movement, longer than the shortest nap
	asideYield = 200 * time.Microsecond // a yield that takes longer was to a thread that computes
	asideNap   = 20 * time.Microsecond  // the shortest nap, to which the system adds some 50 us
	asidePart  = 16                     // later a nap takes this part of the time since the latest movement
	asideSlow  = time.Millisecond       // the shortest nap while the program computes, or is in a call
	asideMost  = 20 * time.Millisecond  // the longest nap
	asideLook  = 500 * time.Microsecond // the shortest time over which the program is looked at
)

// mover is the state of the goroutine that runs moveAside.
type mover struct {
	cores    int           // that this rank has; 0: a part of one
	useful   bool          // whether the program was away: in no call, and not computing
	computes bool          // whether the program used its cores when it was last looked at
	keeps    bool          // whether messages are kept
	claims   uint64        // the number of claims of the communicator at the beginning of the time below
	since    time.Time     // the beginning of the time over which the program is looked at
	used     time.Duration // the CPU time of the process then
	own      time.Duration // the CPU time of the goroutine since then
}

// moveAside moves the calls and messages under way while the program is in no call of c. It ends when a call of the
// program moves them, unless messages are kept.
func (c *Comm) moveAside() {
	for again := true; again; {
		m := mover{cores: c.Waiter.Pollers}
		taken := m.run(c)
		c.useless.Store(!m.useful)
		c.moves.Store(false)
		again = taken && leftAside(c, &m) && c.moves.CompareAndSwap(false, true)
	}
}

// leftAside reports whether anything is left for moveAside, which has ended: a call that ended before that has left it
// to moveAside, and begun no other one.
func leftAside(c *Comm, m *mover) (left bool) {
	for try := 0; try < 2; try++ {
		if c.claim.between(func() {
			_, failed := c.Endpoint.Aborted()
			left = !failed && (c.Engine.Messages.Keeps() || m.useful && c.large && !c.Engine.Settled())
		}) {
			break
		}
		backoff.Nap(asideNap) // the call that ends now has not released the claim, or another one is under way
	}
	return left && !c.over()
}

// run is one life of the goroutine. It reports whether that has ended because a call had the engine.
func (m *mover) run(c *Comm) (taken bool) {
	m.restart(time.Now(), c.left)
	if b, is := c.Endpoint.Bell().(interface{ Follow() }); is { // the kernel may have put it on the core of another rank
		c.claim.between(b.Follow)
	}
	m.yield()
	tries := 0 // the call that has started this may not have ended yet
	for woken, last := time.Now(), time.Now(); !c.over(); {
		can, moved, left, claims := c.move(m)
		now := time.Now()
		m.own += now.Sub(woken)
		woken = now
		switch {
		case can && claims != m.claims: // the program was in a call meanwhile
			m.restart(now, claims)
		case can && now.Sub(m.since) > asideLook:
			m.computes = m.busy(now)
			m.useful = m.useful || !m.computes
			m.restart(now, claims)
		case can && now.Sub(m.since) > asideSpin/4:
			m.useful = m.useful || !m.computes
		}
		if can && !left || !can && tries > 0 && !m.keeps {
			return !can
		}
		tries++
		if moved {
			last = now
		}
		still := now.Sub(last)
		if can && !m.computes && still < asideSpin && m.cores > 0 {
			runtime.Gosched() // the program may wait for this processor of the Go runtime
			if !moved {
				m.yield()
			}
			continue
		}
		nap := min(max(still/asidePart, asideNap), asideMost)
		if tries > 1 && !can || m.computes {
			nap = max(nap, asideSlow)
		}
		backoff.Nap(nap)
		woken = time.Now()
	}
	return false
}

// yield yields the core. If that takes long, the program computes on it.
func (m *mover) yield() {
	begin := time.Now()
	backoff.Yield()
	if time.Since(begin) > asideYield {
		m.computes = true
	}
}

// restart begins the time over which the program is looked at.
func (m *mover) restart(now time.Time, claims uint64) {
	m.since, m.used, m.own, m.claims = now, cpuTime(), 0, claims
}

// busy reports whether the program has used its cores until now.
func (m *mover) busy(now time.Time) bool {
	wall, used := now.Sub(m.since), cpuTime()-m.used-m.own
	if m.cores == 0 {
		return used > wall/4
	}
	return time.Duration(m.cores)*wall-used < wall/2
}

// move moves calls and messages, unless a call does or c has failed. It reports whether it could, whether any moved,
// whether some are left, and how often c has been claimed. Without a mover it takes in messages that this rank does not
// receive yet.
func (c *Comm) move(m *mover) (can, moved, left bool, claims uint64) {
	can = c.claim.between(func() {
		claims = c.claims
		if _, failed := c.Endpoint.Aborted(); !failed {
			moved, left = moveClaimed(c, m)
		}
		if m != nil {
			m.keeps = c.Engine.Messages.Keeps()
		}
	})
	return can, moved, left, claims
}

// moveClaimed is move where the engine is claimed and has not failed.
func moveClaimed(c *Comm, m *mover) (moved, left bool) {
	keeps := c.Engine.Messages.Keeps()
	if m != nil && !keeps && m.computes {
		return false, !c.Engine.Settled()
	}
	moved, left = c.Engine.PollAside(c.Links.Abort)
	if m == nil || keeps {
		took, err := c.Engine.Messages.TakeIn()
		if err != nil {
			c.Links.Abort(transport.CallFault(err, c.Rank, "messages under way"))
		}
		moved, left = moved || took, left && err == nil
	}
	return moved, left
}
