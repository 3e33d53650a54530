package comm

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/treerun/treerun/transport"
)

// Large calls and messages under way also move while the program is in no call of the communicator, in a goroutine that
// runs as long as there are any. Small ones, which a Wait ends in less time than it takes to wake that goroutine, do not
// start it. It polls where the program has left its core, as it does while it waits for a GPU. Where the program
// computes the goroutine naps: what it gains there the program loses.
const (
	asideFrom = 64 << 10              // bytes of a large call
	asideSpin = 50 * time.Microsecond // polls without a nap after the latest movement
	asideNap  = 20 * time.Microsecond // the shortest nap, to which the system adds some 50 us
	asidePart = 16                    // later a nap takes this part of the time since the latest movement
	asideSlow = time.Millisecond      // the shortest nap while the program computes
	asideMost = 20 * time.Millisecond // the longest nap
	asideLook = 2 * time.Millisecond  // the time between two looks at the program
)

// mover is the state of the goroutine that runs moveAside.
type mover struct {
	cores  int           // that this rank has; 0: a part of one
	looked time.Time     // the time of the latest look at the program
	used   time.Duration // the CPU time of the process then
	own    time.Duration // the CPU time of the goroutine since then
}

// moveAside moves the calls and messages under way while the program is in no call of c.
func (c *Comm) moveAside() {
	m := mover{cores: c.Waiter.Pollers}
	m.restart(time.Now())
	for woken, last := m.looked, m.looked; !c.over(); {
		can, moved, left := c.move(false)
		if can && !left {
			m.look(time.Now(), &c.computes)
			return
		}
		now := time.Now()
		if moved {
			last = now
		}
		still := now.Sub(last)
		if can && !c.computes.Load() && still < asideSpin && m.cores > 0 {
			runtime.Gosched() // the program may wait for this processor of the Go runtime
			continue
		}
		m.own += now.Sub(woken)
		if now.Sub(m.looked) > asideLook {
			m.look(now, &c.computes)
		}
		nap := min(max(still/asidePart, asideNap), asideMost)
		if c.computes.Load() {
			nap = max(nap, asideSlow)
		}
		// time.Sleep takes a millisecond at least, as an idle runtime passes whole milliseconds to the kernel.
		t := syscall.NsecToTimespec(int64(nap))
		_ = syscall.Nanosleep(&t, nil)
		if woken = time.Now(); !can {
			m.restart(woken)
		}
	}
}

// restart begins the time until the next look.
func (m *mover) restart(now time.Time) { m.looked, m.used, m.own = now, cpuTime(), 0 }

// look determines whether the program has computed since the last look, if that was not just now.
func (m *mover) look(now time.Time, computes *atomic.Bool) {
	wall, others := now.Sub(m.looked), cpuTime()-m.used-m.own
	if wall > asideSpin {
		free := time.Duration(m.cores)*wall - others
		computes.Store(m.cores > 0 && free < wall/2 || m.cores == 0 && others > wall/4)
	}
	m.restart(now)
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// move moves calls and messages, unless a call does or c has failed. It reports whether it could, whether any moved,
// and whether some are left. With takeIn it takes in messages that this rank does not receive yet.
func (c *Comm) move(takeIn bool) (can, moved, left bool) {
	can = c.claim.between(func() {
		if _, failed := c.Endpoint.Aborted(); !failed {
			moved, left = c.Engine.PollAside(c.Links.Abort)
			if takeIn || c.Engine.Messages.Keeps() {
				took, err := c.Engine.Messages.TakeIn()
				if err != nil {
					c.Links.Abort(transport.CallFault(err, c.Rank, "messages under way"))
				}
				moved, left = moved || took, left && err == nil
			}
		}
		c.moves = left && c.moves
	})
	return can, moved, left
}
