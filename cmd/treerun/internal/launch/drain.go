package launch

import (
	"os"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/numbers"
)

// unreadGrace is how long a job that did not end well waits at least for
// somebody to read the rest of its output, and how long the cause of that may
// take to be printed.
const unreadGrace = 500 * time.Millisecond

// drain waits until all that the ranks have printed has been written. Where the
// job has ended well that takes as long as the reader does, within the job's
// time limit. Otherwise what nobody reads is dropped in the end. It reports
// false when the user did not want to wait.
func (s *supervisor) drain() (complete bool) {
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		for _, m := range s.ranks {
			if m.running {
				<-m.streams[wire.Stdout].Done()
				<-m.streams[wire.Stderr].Done()
			}
		}
	}()
	late := time.After(host.LeftoverGrace)
	unread := s.unread()
	var written <-chan struct{}
	for {
		select {
		case <-copied:
			copied = nil
			written = s.job.Screen.Flushed()
		case <-written:
			s.heedBroken()
			return true
		case <-late:
			s.broadcast(&wire.Finish{}) // a process outside the ranks' process groups may hold output open
		case e := <-s.events:
			s.receive(e)
		case <-s.timeout:
			s.timeout = nil
			if s.cause.kind == none {
				s.cause = cause{kind: byTimeout}
			}
			s.giveUp(copied)
			return true
		case <-unread:
			s.giveUp(copied)
			return true
		case sig := <-s.job.Signals:
			if s.givesUp(sig) {
				s.job.Screen.GiveUp()
				return false
			}
		}
	}
}

// unread tells when to give up readers who do not read; never, if the job has
// ended well.
func (s *supervisor) unread() <-chan time.Time {
	switch s.cause.kind {
	case none:
		return nil
	case byTimeout:
		return time.After(unreadGrace)
	}
	return time.After(max(unreadGrace, s.job.ShutdownTimeout))
}

// giveUp drops what has not been read, and says so where that can be written.
func (s *supervisor) giveUp(copied <-chan struct{}) {
	s.job.Screen.GiveUp()
	if copied != nil {
		s.broadcast(&wire.Finish{})
	}
	for copied != nil { // no stream waits for anybody now
		select {
		case <-copied:
			copied = nil
		case e := <-s.events:
			s.receive(e)
		}
	}
	s.heedBroken()
	screen := s.job.Screen
	for _, sink := range []*output.Sink{screen.Out, screen.Err} {
		if n := sink.Dropped(); n > 0 {
			screen.Err.Printf("treerun: nobody reads %s: the last %s that ranks printed there may be lost", sink.Name(),
				numbers.Count(n, "byte"))
		}
	}
}

// heedBroken looks whether writing has failed.
func (s *supervisor) heedBroken() {
	select {
	case err := <-s.broken:
		s.begin(cause{kind: byOutput, err: err})
	default:
	}
}

// flush waits until what treerun itself has printed is written; not for long,
// because nobody may read it.
func (s *supervisor) flush() {
	select {
	case <-s.job.Screen.Err.Flushed():
	case <-time.After(unreadGrace):
	}
}

// givesUp tells whether a signal means that the user does not want to wait for
// the rest of the output.
func (s *supervisor) givesUp(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		first := s.firstStop.IsZero()
		if !s.insists() && !first {
			return false
		}
		s.begin(cause{kind: bySignal, signal: sig.(syscall.Signal)})
		return true
	}
	return false
}
