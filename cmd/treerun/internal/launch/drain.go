package launch

import (
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/numbers"
)

const (
	// unreadGrace is how long a job that did not end well waits at least for
	// somebody to read the rest of its output, and how long the cause of that may
	// take to be printed.
	unreadGrace = 500 * time.Millisecond

	// partGrace is how long agents have for their end.
	partGrace = time.Second
)

// drain waits until all that the ranks have printed has been written. Where the
// job has ended well that takes as long as the reader does, within the job's
// time limit. Otherwise what nobody reads is dropped in the end. It reports
// false when the user did not want to wait.
func (s *supervisor) drain() (complete bool) {
	s.draining = true
	// A process outside the ranks' process groups may hold output open.
	s.after(host.LeftoverGrace, func() { s.broadcast(&wire.Finish{}) })
	if s.cause.kind != none { // else its readers have all the time that the job has
		limit := unreadGrace
		if s.cause.kind != byTimeout {
			limit = max(limit, s.job.ShutdownTimeout)
		}
		s.after(limit, s.giveUp)
	}
	s.wait(func() bool { return s.printing == 0 || s.impatient })
	written, out, err := false, s.job.Screen.Out.Flushed(), s.job.Screen.Err.Flushed()
	go func() {
		<-out
		<-err
		s.post(func() { written = true })
	}()
	s.wait(func() bool { return written || s.gaveUp })
	if s.impatient {
		return false
	}
	screen := s.job.Screen
	for _, sink := range []*output.Sink{screen.Out, screen.Err} {
		if n := sink.Dropped(); n > 0 {
			screen.Err.Printf("treerun: nobody reads %s: the last %s that ranks printed there may be lost", sink.Name(),
				numbers.Count(n, "byte"))
		}
	}
	return true
}

// giveUp drops what has not been read: no stream waits for anybody now.
func (s *supervisor) giveUp() {
	s.gaveUp = true
	s.job.Screen.GiveUp()
	s.broadcast(&wire.Finish{})
}

// flush waits until what treerun itself has printed is written; not for long,
// because nobody may read it.
func (s *supervisor) flush() {
	select {
	case <-s.job.Screen.Err.Flushed():
	case <-time.After(unreadGrace):
	}
}

// part ends the connections to other hosts, and what this process has started
// for them.
func (s *supervisor) part() {
	close(s.quit)
	if s.job.Remote.Open != nil { // users have started the treeruns of other nodes, and want to know
		r := &wire.Result{Code: s.exitCode()}
		if err := s.notStarted(); err != nil {
			r.Text = err.Error()
		}
		s.sendTo(wire.All, r) // having heard it, they hang up
	}
	s.tree.Close(partGrace)
	s.reaper.Close()
}
