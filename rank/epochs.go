package rank

import (
	"context"
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/job"
)

// epochs is this rank's knowledge of the epochs of its job, from the launcher's messages. Its methods may be called
// concurrently.
type epochs struct {
	mu      sync.Mutex
	world   *World         // gets the news of its epoch; nil between two epochs
	roster  *job.Roster    // the latest one
	latest  int            // its epoch, before that the one in which this process begins
	pending []*job.Message // about the latest epoch, whose World does not exist yet
	over    string         // why there will be no other epoch, "" while there may be
	changed chan struct{}  // closed and replaced with each roster, and at the end
}

// receive handles a message about an epoch.
func (e *epochs) receive(m *job.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case m.Kind == job.Begins:
		e.roster, e.latest, e.pending = m.Roster, m.Roster.Epoch, nil
		e.change()
	case m.Kind == job.NoMore:
		e.over = m.Text
		e.change()
	case e.world != nil && e.world.cfg.Epoch == m.Epoch:
		deliver(e.world, m)
	case m.Epoch == e.latest:
		e.pending = append(e.pending, m)
	}
}

// look handles the news that the launcher has published in memory.
func (l *launcher) look() {
	seen := l.seen.Load()
	all, count := l.cfg.News.Since(seen)
	for _, m := range all {
		l.news.receive(m)
	}
	l.seen.CompareAndSwap(seen, count)
}

// fail notes that the launcher can report nothing more.
func (e *epochs) fail(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.world != nil {
		e.world.mesh.MarkFailed(-1, why)
	}
	e.over = why
	e.change()
}

// change wakes the rank that waits for an epoch. The caller holds mu.
func (e *epochs) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// attach gives w the news of its epoch, also those that have come before. Without w it ends that.
func (e *epochs) attach(w *World) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.world = w; w == nil {
		return
	}
	if e.over != "" {
		w.mesh.MarkFailed(-1, e.over)
	}
	if w.cfg.Epoch == e.latest {
		for _, m := range e.pending {
			deliver(w, m)
		}
		e.pending = nil
	}
}

// after waits for the roster of an epoch after the given one, or the end of ctx. If there will be none the error is an
// ErrRenew.
func (e *epochs) after(ctx context.Context, epoch int) (*job.Roster, error) {
	for {
		e.mu.Lock()
		r, over, changed := e.roster, e.over, e.changed
		e.mu.Unlock()
		switch {
		case over != "":
			return nil, fmt.Errorf("%w: %s", ErrRenew, over)
		case r != nil && r.Epoch > epoch:
			return r, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the next epoch: %w", context.Cause(ctx))
		}
	}
}
