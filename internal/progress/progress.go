// Package progress makes one goroutine of a rank, the poller, poll for all of its goroutines that wait, each on a
// communicator of its own. Without it each would yield its core between polls, which lets other processes run but no
// other goroutine of the rank. The first goroutine that waits is the poller. The others leave their Tasks to it and
// block. It polls all Tasks, wakes the goroutines of those that are over, yields or sleeps once for all of them, and
// makes another goroutine the poller when its own Task is over.
//
// A single goroutine that waits pays two atomic operations for this.
package progress

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// State is the state of a Task.
type State int

const (
	Moving State = iota // poll it again at once
	Idle                // yield before the next poll
	Tired               // sleep before the next poll
	Over                // its goroutine continues
)

// Task is the wait of one goroutine. One goroutine at a time calls its methods: the poller.
type Task interface {
	// Poll makes all progress that is possible without blocking. Over stays Over.
	Poll() State

	// Prepare prepares the bell, polls once more, and returns how long the sleep may be; 0: there is
	// something to do, or the Task is over.
	Prepare() (limit time.Duration)

	// Woken follows each Prepare, when the sleep is over or was canceled.
	Woken()

	// Bell returns the bell on which the Task sleeps.
	Bell() Bell
}

// Seat is the place of one goroutine that waits. The zero value is ready; it serves one wait after the other.
type Seat struct {
	task Task
	next *Seat     // in a chain
	wake chan bool // true: be the poller; false: the Task is over
	own  Rank      // for waits without other goroutines
}

// Rank is all waits of a rank. The zero value is ready.
type Rank struct {
	handover
	others      []*Seat      // their Tasks are polled in addition to the poller's own
	soloPollers atomic.Int32 // goroutines that poll for themselves
}

// Held reports whether a goroutine is the poller. Held, Hold, Joined and Leave are for the first turns of a wait, which
// have to be quick. p may be nil: then each goroutine waits by itself.
func (p *Rank) Held() bool { return p != nil && p.held.Load() }

// Hold makes this goroutine the poller, if there is none.
func (p *Rank) Hold() bool { return p == nil || p.held.CompareAndSwap(false, true) }

// Joined reports whether other goroutines have left their Tasks to the poller, this goroutine, which continues with
// Wait.
func (p *Rank) Joined() bool { return p != nil && p.arrived.Load() != nil }

// Leave ends the time as poller that Hold has begun.
func (p *Rank) Leave() {
	if p != nil {
		p.leave()
	}
}

// Wait returns when task is Over. It begins with a yield. held: this goroutine is the poller. Up to pollers goroutines,
// which have cores of their own, wait side by side.
func (p *Rank) Wait(s *Seat, task Task, held bool, pollers int) {
	s.task = task
	switch {
	case p == nil:
		s.own.held.Store(true)
		s.own.poll(s)
	case held || p.Hold(), !(pollers > 1 && p.pollAlone(s, min(pollers, runtime.GOMAXPROCS(0)-1))) && p.enter(s, s):
		p.poll(s)
	}
}

// pollAlone polls for s alone, if fewer than pollers goroutines poll.
func (p *Rank) pollAlone(s *Seat, pollers int) bool {
	defer p.soloPollers.Add(-1)
	if int(p.soloPollers.Add(1)) >= pollers {
		return false
	}
	s.own.held.Store(true)
	s.own.poll(s)
	return true
}

// enter pushes a chain of seats, from s on, and blocks until this goroutine is the poller; it returns false if its
// Task, that of s, is over.
func (p *Rank) enter(s, last *Seat) bool {
	if s.wake == nil {
		s.wake = make(chan bool, 1)
	}
	if p.run(push, s, last) == polls {
		p.others = p.collect(p.others)
		if i := slices.Index(p.others, s); i >= 0 {
			p.others = slices.Delete(p.others, i, i+1)
			return true
		}
		p.leave() // a poller has taken s, and sleeps for s, too
	}
	return <-s.wake
}

// poll polls all Tasks until that of s is over.
func (p *Rank) poll(s *Seat) {
	state, bell, narrow := Idle, s.task.Bell(), runtime.GOMAXPROCS(0) == 1
	for yields := 0; ; yields++ {
		switch state {
		case Idle:
			bell.Yield()
			if narrow && yields%8 == 0 {
				runtime.Gosched() // other goroutines have no processor, and may be about to wait
			}
		case Tired:
			if !p.sleep(s) {
				return
			}
		}
		state = s.task.Poll()
		if p.arrived.Load() != nil {
			p.others = p.collect(p.others)
		}
		if len(p.others) > 0 {
			state = p.pollOthers(state)
		}
		if state == Over {
			p.leave()
			return
		}
	}
}

// pollOthers polls the other Tasks, and returns the state of all Tasks, if that of the poller's own is state.
func (p *Rank) pollOthers(state State) State {
	n := 0
	for _, s := range p.others {
		if its := s.task.Poll(); its == Over {
			s.wake <- false
		} else {
			p.others[n] = s
			n++
			if state != Over {
				state = min(state, its)
			}
		}
	}
	if n == len(p.others) {
		return state
	}
	clear(p.others[n:])
	p.others = p.others[:n]
	if state != Over {
		runtime.Gosched() // their goroutines run, and most wait again at once
		return Moving
	}
	return state
}

// leave makes another goroutine the poller, if one waits.
func (p *Rank) leave() {
	for at := polls; at == polls; at = p.run(release, nil, nil) {
		if p.arrived.Load() != nil {
			p.others = p.collect(p.others)
		}
		if n := len(p.others) - 1; n >= 0 {
			last := p.others[n]
			p.others[n] = nil
			p.others = p.others[:n]
			last.wake <- true
			return
		}
	}
}

// sleep sleeps once for all Tasks. This goroutine is not the poller during the sleep: a goroutine that begins to wait
// becomes the poller. It returns false when the Task of s is over, true when this goroutine is the poller again.
func (p *Rank) sleep(s *Seat) bool {
	group := append(p.others, s)
	p.others = nil
	long := group[0].task.Prepare()
	for _, o := range group[1:] {
		long = min(long, o.task.Prepare())
	}
	at := polls
	if long > 0 {
		at = p.run(release, nil, nil)
	}
	if at == polls { // there is something to do
		long = 0
	} else if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched() // the processor stays with this goroutine for the beginning of its sleep
	}
	sleep(group, long)
	for _, o := range group {
		o.task.Woken()
	}
	if at == polls || p.next(hold, nil, nil) == polls {
		p.others = group[:len(group)-1]
		return true
	}
	first := (*Seat)(nil)
	for _, o := range group {
		o.next, first = first, o
	}
	return p.enter(first, group[0])
}

func sleep(group []*Seat, limit time.Duration) {
	if len(group) == 1 {
		group[0].task.Bell().Sleep(limit)
		return
	}
	bells := make([]Bell, len(group))
	for i, s := range group {
		bells[i] = s.task.Bell()
	}
	bells[0].SleepAny(bells, limit)
}
