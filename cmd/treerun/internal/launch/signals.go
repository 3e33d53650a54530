package launch

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

var (
	stopSignals    = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	forwardSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT, syscall.SIGTSTP,
		syscall.SIGCONT}
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

// insists notes a signal to stop, and tells whether it repeats an earlier one.
func (s *supervisor) insists() bool {
	if s.firstStop.IsZero() {
		s.firstStop = time.Now()
		return false
	}
	return time.Since(s.firstStop) > sameSignal
}
