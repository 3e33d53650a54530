//go:build linux

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/control"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// cause is the reason for ending a job before all ranks have ended by themselves.
type cause struct {
	kind   causeKind
	err    error          // for the user; its exit code is the job's, unless exitCode knows a better one
	signal syscall.Signal // bySignal: the one that treerun got
}

type causeKind int

const (
	noCause   causeKind = iota
	byFailure           // a rank has failed, or a host was lost
	bySignal            // treerun was stopped by a signal
	byTimeout
	byOutput // the output of the ranks cannot be written
	byError  // treerun could not start the job; Run returns the error
)

// supervisor runs a job from its start to its end. All its methods except outputFailed and post are called by one
// goroutine.
type supervisor struct {
	job     *Job
	reaper  *host.Reaper
	local   *host.Host   // nil where no rank is on this host
	program host.Program // of local
	input   *host.Input  // the stdin of several hosts; nil: at most one reads it
	jobID   string
	tree    *agent.Tree
	run     *wire.Run // the latest
	start   time.Time
	hosts   []*hostState
	idle    []JobHost    // without a rank so far
	ranks   []*rankState // by rank: its latest process
	before  []*rankState // earlier processes of ranks

	members    *membership.Machine
	attempt    int  // of all ranks: number of restarts
	restarting bool // all ranks end, and start anew
	losses     losses
	notices    []*notice // that are not printed yet
	starting   int       // processes that were ordered and are not reported yet
	epochSize  int       // ranks of an epoch after the first, else 0
	roster     []int     // by rank of the latest epoch: its number in ranks
	forming    time.Time // when the next epoch was first seen to wait for ranks
	formNoted  bool      // a line has reported that

	lostNext     string            // what follows the loss of the ranks of a host
	stallTimeout time.Duration     // of --stall-timeout; 0: none
	control      *control.Listener // for the user's commands; nil: it could not be opened
	looks        map[int]*look     // that are not over, by number
	looked       int               // number of looks so far
	recordings   *recordings       // nil: the ranks record nothing
	draining     bool              // all ranks have ended
	running      int               // ranks that have not ended
	printing     int               // streams of ranks that have not ended
	joined       int
	seeded       bool
	order        int // number of moments at which ends were seen

	events            chan func()   // the functions for wait to call
	quit              chan struct{} // closed when the supervisor takes no more events
	firstStop         time.Time     // time of the first signal to stop
	signaled          string        // the host on which an agent got it, as in messages; "": this treerun got it
	lastContinue      time.Time     // time of the last SIGCONT
	failed            time.Time     // time of the first failure
	debuggedNoted     bool          // a line has named the ranks in a debugger that the job waits for
	lastPeerFailure   time.Time     // time when a failure last reached a call of a rank
	stopped           bool          // ranks have been sent a signal to stop
	killed            bool          // ranks have been killed
	outputDropped     bool          // unread output is dropped
	skipOutput        bool          // the user does not want to wait for unread output
	cause             cause         // the first cause that ends the job
	runningAtTimeout  []string      // byTimeout: descriptions of the ranks that ran
	startingAtTimeout bool          // byTimeout: ranks were still being started

	watch watch
}

// outputFailed is called by the goroutines of streams when the output of ranks cannot be written.
func (s *supervisor) outputFailed(err error) {
	s.post(func() { s.begin(cause{kind: byOutput, err: err}) })
}

// post has wait call f. Several goroutines call it.
func (s *supervisor) post(f func()) {
	select {
	case s.events <- f:
	case <-s.quit:
	}
}

// after has wait call f after d, in any state of the job.
func (s *supervisor) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() { s.post(f) })
}

// wait handles events until a condition holds.
func (s *supervisor) wait(until func() bool) {
	for !until() {
		select {
		case sig := <-s.job.Signals:
			s.handle(sig)
		case f := <-s.events:
			f()
		}
	}
}

// broadcast gives an order to all hosts.
func (s *supervisor) broadcast(b wire.Body) {
	if s.local != nil {
		s.local.Order(b)
	}
	s.sendTo(wire.All, b)
}

// sendTo gives an order to another host, or to all others.
func (s *supervisor) sendTo(index int, b wire.Body) {
	s.tree.Send(&wire.Frame{Host: index, Body: b})
}

func (s *supervisor) onTimeout() {
	err := cmdline.Errorf(cmdline.ExitTimeout, "the time limit of %s is over", s.job.Timeout)
	timeout := cause{kind: byTimeout, err: err}
	switch starting := !s.allReached(started); {
	case s.draining:
		s.begin(timeout)
		s.dropUnreadOutput()
	case s.running > 0 || starting:
		s.runningAtTimeout, s.startingAtTimeout = s.stragglers(), starting
		s.begin(timeout)
	default: // only leftovers are waited for; the limit holds again when output is
		s.after(unreadGrace, s.onTimeout)
	}
}

// abandon ends a job that could not be started as a whole: the ranks that run already wait for the others. The first
// error counts.
func (s *supervisor) abandon(err error) {
	if s.cause.kind == byError {
		return
	}
	s.cause = cause{kind: byError, err: err}
	s.kill()
}

// startError returns why the job could not be started, nil if it was.
func (s *supervisor) startError() error {
	if s.cause.kind == byError {
		return s.cause.err
	}
	return nil
}

// afterInAttempt has wait call f after d, unless all ranks have been started anew then.
func (s *supervisor) afterInAttempt(d time.Duration, f func()) {
	attempt := s.attempt
	s.after(d, func() {
		if s.attempt == attempt {
			f()
		}
	})
}

// begin begins to end the job. Only the first cause counts; a later one that demands a faster end still has that
// effect.
func (s *supervisor) begin(c cause) {
	if s.cause.kind == noCause {
		s.cause = c
		if c.kind == byFailure {
			s.failed = time.Now()
			s.after(failureGrace, s.onGraceEnd)
		}
	}
	s.restarting = false
	if c.kind != byFailure {
		s.terminate()
	}
}

// onGraceEnd stops the ranks after a failure, once the error has reached each and it has had the time to report it.
func (s *supervisor) onGraceEnd() {
	if s.awaitsDebugged() {
		s.after(failureGrace, s.onGraceEnd)
		return
	}
	wait := time.Since(s.lastPeerFailure) < failureGrace || slices.ContainsFunc(s.ranks, (*rankState).unaware)
	if s.running == 0 || !wait || time.Since(s.failed) >= maxFailureGrace {
		s.terminate()
		return
	}
	s.after(failureGrace/10, s.onGraceEnd)
}

// awaitsDebugged reports whether ranks in a debugger run, which may show their user the failure. It prints that once.
func (s *supervisor) awaitsDebugged() bool {
	var left []int
	for _, r := range s.job.Debug {
		if r < len(s.ranks) && s.ranks[r].running && !s.ranks[r].ended {
			left = append(left, r)
		}
	}
	if len(left) == 0 || s.stopped {
		return false
	}
	if !s.debuggedNoted {
		s.debuggedNoted = true
		s.job.Screen.Err.Printf("treerun: %v; the job stays for the debugger of %s (Ctrl-C ends it)", s.cause.err,
			inspect.RanksText(left))
	}
	return true
}

// terminate sends SIGTERM to all ranks, and to the processes that ended ones have left. After an earlier call, and when
// no rank is left, it does nothing.
func (s *supervisor) terminate() {
	if s.stopped || s.draining {
		return
	}
	s.stopped = true
	s.job.Trace("stopping %s", numbers.Count(s.running, "rank"))
	s.broadcast(&wire.Signal{Number: syscall.SIGTERM})
	s.afterInAttempt(s.job.ShutdownTimeout, s.kill)
	s.afterInAttempt(stopNote, s.printStopNote)
}

// stopNote is the time that ranks may take to stop before a line reports the wait.
const stopNote = time.Second

// printStopNote prints why and for how long treerun waits for the ranks, and the options of the user.
func (s *supervisor) printStopNote() {
	if s.running == 0 || s.killed {
		return
	}
	hint, why := "", fmt.Sprint(s.cause.err)
	if s.restarting {
		why = "all ranks start again"
	}
	if s.cause.kind == bySignal {
		hint = " (another Ctrl-C kills them now)"
	}
	s.job.Screen.Err.Printf("treerun: %s: stopping %s, SIGKILL after %s%s", why,
		numbers.Count(s.running, "rank"), s.job.ShutdownTimeout, hint)
}

// kill ends all ranks and their leftover processes, at once.
func (s *supervisor) kill() {
	if s.killed || s.draining {
		return
	}
	s.stopped, s.killed = true, true
	s.job.Trace("killing %s", numbers.Count(s.running, "rank"))
	s.broadcast(&wire.Signal{Number: syscall.SIGKILL})
	s.afterInAttempt(host.LostAfter+time.Second, s.dropUnresponsiveHosts)
}

// dropUnresponsiveHosts gives up the hosts that have not responded to a kill.
func (s *supervisor) dropUnresponsiveHosts() {
	l := &wire.Lost{Text: "it does not answer"}
	for _, h := range s.hosts {
		if h.phase < done {
			l.Hosts = append(l.Hosts, h.index)
			s.job.Screen.Err.Printf("treerun: host %s does not answer: its ranks may still run", h.Name)
		}
	}
	s.loseHosts(l)
}

// exitCode returns the exit code of the job.
func (s *supervisor) exitCode() int {
	switch {
	case s.cause.kind == byFailure:
		if first, ok := firstFailure(s.ends()); ok {
			return first.exitCode()
		}
	case s.cause.signal == syscall.SIGTERM && s.allSucceeded():
		return s.job.SigtermCode
	case s.cause.kind == byOutput && errors.Is(s.cause.err, syscall.EPIPE):
		return cmdline.SignalCode(syscall.SIGPIPE)
	}
	return cmdline.ExitCode(s.cause.err) // 0 for none
}

// handle acts on a signal to the launcher.
func (s *supervisor) handle(sig os.Signal) {
	switch sig {
	case syscall.SIGPIPE: // the failed write reports itself
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		s.stop(sig.(syscall.Signal))
	case syscall.SIGTSTP:
		s.suspend()
	case syscall.SIGCONT:
		s.lastContinue = time.Now()
		fallthrough
	default:
		s.broadcast(&wire.Signal{Number: sig.(syscall.Signal)})
	}
}

// stop acts on a signal that stops the job.
func (s *supervisor) stop(sig syscall.Signal) {
	s.job.Trace("got %s", job.SignalName(sig))
	first := s.firstStop.IsZero()
	again := s.noteStopSignal()
	if s.draining && !first && !again {
		return
	}
	got := cmdline.Errorf(cmdline.SignalCode(sig), "got %s", job.SignalName(sig))
	s.begin(cause{kind: bySignal, signal: sig, err: got})
	switch {
	case s.draining:
		s.skipOutput = true
		s.dropUnreadOutput()
	case again && sig == syscall.SIGINT:
		s.kill()
	}
}

// suspend stops all ranks, and this process until SIGCONT, which is forwarded.
func (s *supervisor) suspend() {
	s.broadcast(&wire.Signal{Number: syscall.SIGTSTP})
	if len(s.hosts) > 1 || !s.hosts[0].Local {
		time.Sleep(100 * time.Millisecond) // so that the order is sent first
	}
	s.reaper.Do(func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }) // behind the ranks of this host
}

var (
	stopSignals    = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	forwardSignals = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGQUIT, syscall.SIGTSTP,
		syscall.SIGCONT}
)

// Signals registers the signals that a Job needs and returns the channel for
// it: those that stop the job, those that are forwarded to the ranks, and
// SIGPIPE, so that a write to a closed pipe fails instead of killing treerun. SIGHUP and SIGINT
// stay ignored where they were at the start, as under nohup and behind & in a script.
func Signals() <-chan os.Signal {
	c := make(chan os.Signal, 128) // a full channel loses a signal
	for _, s := range append(append([]os.Signal{syscall.SIGPIPE}, stopSignals...), forwardSignals...) {
		if (s == syscall.SIGHUP || s == syscall.SIGINT) && signal.Ignored(s) {
			continue
		}
		signal.Notify(c, s)
	}
	return c
}

// sameSignal is the time within which further signals to stop count as one:
// timeout(1) and closing terminals send theirs twice.
const sameSignal = 100 * time.Millisecond

// noteStopSignal records a signal to stop, and reports whether it repeats an earlier one.
func (s *supervisor) noteStopSignal() bool {
	if s.firstStop.IsZero() {
		s.firstStop = time.Now()
		return false
	}
	return time.Since(s.firstStop) > sameSignal
}
