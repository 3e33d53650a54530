package launch

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	stopSignals    = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	forwardSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGCONT}
)

// Signals registers the signals that a Job needs and returns the channel for
// it: those that stop the job, those that are forwarded to the ranks, and
// SIGPIPE, so that a write to a closed pipe fails instead of killing us. SIGHUP
// stays ignored where it was at the start, as under nohup.
func Signals() <-chan os.Signal {
	c := make(chan os.Signal, 128) // a full channel loses a signal
	for _, s := range append(append([]os.Signal{syscall.SIGPIPE}, stopSignals...), forwardSignals...) {
		if s == syscall.SIGHUP && signal.Ignored(s) {
			continue
		}
		signal.Notify(c, s)
	}
	return c
}

// StopSignals gives the signals that stop a job their usual effect again: they
// end this process.
func StopSignals() { signal.Reset(stopSignals...) }

// sameSignal is the time within which further signals to stop count as one:
// timeout(1) and closing terminals send theirs twice.
const sameSignal = 100 * time.Millisecond

// handle acts on a signal to the launcher.
func (s *supervisor) handle(sig os.Signal) {
	switch sig {
	case syscall.SIGPIPE: // the failed write reports itself
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		s.job.Trace("got %s", unix.SignalName(sig.(syscall.Signal)))
		again := s.insists()
		s.begin(cause{kind: bySignal, signal: sig.(syscall.Signal)})
		if again && sig == syscall.SIGINT {
			s.kill()
		}
	case syscall.SIGTSTP:
		s.signalAll(unix.SIGTSTP)
		_ = unix.Kill(unix.Getpid(), unix.SIGSTOP) // until SIGCONT, which is forwarded
	default:
		s.signalAll(sig.(syscall.Signal))
	}
}

// insists notes a signal to stop, and tells whether it repeats an earlier one.
func (s *supervisor) insists() bool {
	if s.firstStop.IsZero() {
		s.firstStop = time.Now()
		return false
	}
	return time.Since(s.firstStop) > sameSignal
}

// signalAll sends sig to the process groups of all ranks that have not ended,
// and to those that ended ranks have left processes in.
func (s *supervisor) signalAll(sig syscall.Signal) {
	for _, c := range s.children {
		c.signal(sig)
	}
}

// signal sends sig to the rank's process group if there is one. The rank's pid
// is the group's number; it belongs to the rank until the rank is waited for,
// and after that as long as a child of ours is in the group. Only the goroutine
// that waits for children may call it.
func (c *child) signal(sig syscall.Signal) {
	if c.end == nil || c.groupLives() {
		_ = unix.Kill(-c.pid, sig) // EPERM: a rank that changed its user is beyond us
	}
}

// groupLives tells whether the process group of an ended rank still has a
// process in it. Orphans of a rank are our children (we are the subreaper).
func (c *child) groupLives() bool {
	return unix.Waitid(unix.P_PGID, c.pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) == nil
}
