package device

import (
	"time"

	"github.com/treerun/treerun/internal/backoff"
)

// Err returns the reason why the Group is unusable, nil while it is usable. Call it when a stream has come to the end
// of a call, before its result is used: the work of streams after an abort is void. It takes one load from memory that
// all ranks of the host share.
func (g *Group) Err() error {
	if g.failure.Load() == nil {
		if g.abort.Load() == 0 {
			return nil
		}
		g.failed(ErrAborted)
	}
	return *g.failure.Load()
}

// Abort ends the Group with err, which later calls return, and that of all ranks of the segment with ErrAborted. It
// returns the error that counts, which is that of the first Abort, at once; within some milliseconds all streams of
// this rank that wait for other ranks continue, whatever the state of those.
func (g *Group) Abort(err error) error {
	g.end(err, nil)
	return *g.failure.Load()
}

// failed is Abort for a failure that the Group itself has found.
func (g *Group) failed(err error) { g.end(err, g.cfg.Failed) }

// end ends the group with err, unless it has ended, and calls notify, unless it is nil.
func (g *Group) end(err error, notify func(error)) {
	g.ending.Lock()
	defer g.ending.Unlock()
	if !g.failure.CompareAndSwap(nil, &err) {
		return
	}
	g.abort.CompareAndSwap(0, 1) // before any wait passes
	g.workers.Go(g.drain)
	if notify != nil {
		go notify(err)
	}
	if g.proxy != nil {
		g.proxy.wakeUp()
	}
}

// drain lets all waits of this rank's streams pass until nothing is under way. Other ranks may still write a flag that
// was set here: they write the value that a stream waits for, or, if they have ended, nothing. A flag that falls back
// is set again.
func (g *Group) drain() {
	backoff.Until(2*time.Millisecond, func() bool {
		g.links.passAll()
		if !g.mu.TryLock() {
			return false
		}
		defer g.mu.Unlock()
		return g.executor.idle()
	})
}

// watchEvery is the time between two checks of a Group with calls under way.
const watchEvery = 10 * time.Millisecond

// watch checks the calls under way until the Group has failed or is closed, and sleeps while there are none: it reads
// the abort word and the errors of the device, and calls Config.Watch.
func (g *Group) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-g.wake:
		}
		for under := true; under; {
			select {
			case <-g.done:
				return
			case <-tick.C:
			}
			busy := g.enqueuing.Load() // read first: then tail is that of the latest call
			done, err := g.executor.tail.Query()
			if err != nil {
				g.failed(err)
			}
			if g.cfg.Watch != nil {
				g.cfg.Watch()
			}
			if g.Err() != nil {
				return
			}
			under = busy || !done
		}
	}
}
