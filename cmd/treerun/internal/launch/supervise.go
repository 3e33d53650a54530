package launch

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/guard"
)

const (
	// leftoverGrace is the time from SIGTERM to SIGKILL for what ended ranks
	// have left running, and the time that is waited for the end of output
	// that a process outside the ranks' process groups holds open.
	leftoverGrace = 100 * time.Millisecond

	// lostAfter is how long after SIGKILL a process is given up: it hangs in
	// the kernel.
	lostAfter = 5 * time.Second
)

// cause is why a job is brought to its end before all ranks have ended by
// themselves.
type cause struct {
	kind   causeKind
	signal syscall.Signal // bySignal: the one that treerun got
	err    error          // byOutput
}

type causeKind int

const (
	none      causeKind = iota
	byFailure           // a rank has failed
	bySignal            // treerun was told to stop
	byTimeout
	byOutput // what the ranks print cannot be written
	byError  // treerun could not start the job; Run returns the error
)

// supervisor runs the ranks of a job from their start to their end. All its
// methods but outputFailed are called by one goroutine.
type supervisor struct {
	job      *Job
	host     string
	guard    *guard.Guard // of the ranks' process groups
	start    time.Time
	oomKills int // at the start
	children []*child
	byPID    map[int]*child
	running  int // children that have not ended
	talking  int // children that may still send messages
	joined   int
	seeded   bool
	order    int // counts the moments at which ends were seen

	ending    chan os.Signal // SIGCHLD; one that waits stands for all
	events    chan event
	broken    chan error // errors of writing what ranks print
	timeout   <-chan time.Time
	grace     <-chan time.Time // when to stop the others after a failure
	killAt    <-chan time.Time
	lost      <-chan time.Time
	firstStop time.Time   // when the first signal to stop came
	sweeping  bool        // all ranks have ended, what they left is being stopped
	cause     cause       // the first
	late      []straggler // byTimeout
}

func newSupervisor(j *Job) *supervisor {
	s := &supervisor{
		job: j, start: time.Now(), oomKills: outOfMemoryKills(), byPID: make(map[int]*child),
		ending: make(chan os.Signal, 1), events: make(chan event, 64), broken: make(chan error, 1),
	}
	signal.Notify(s.ending, syscall.SIGCHLD)
	if j.Timeout > 0 {
		s.timeout = time.After(j.Timeout)
	}
	j.Screen.Out.OnError(s.outputFailed)
	j.Screen.Err.OnError(s.outputFailed)
	return s
}

// outputFailed is called by the goroutines of streams; the first error counts.
func (s *supervisor) outputFailed(err error) {
	select {
	case s.broken <- err:
	default:
	}
}

// startAll starts all ranks; or some, and reports why not the rest, unless the
// user or the time limit stopped it. Messages and ends wait until it is done:
// they are for all ranks.
func (s *supervisor) startAll() error {
	sp, err := newSpawner(s.job, s.outputFailed, s.events)
	if err != nil {
		return err
	}
	defer sp.close()
	s.host = sp.file.Host
	if s.guard, err = guard.Start(sp.file.JobID); err != nil {
		s.job.Trace("what ranks start will outlive a SIGKILL of this process: %v", err)
	}
	sp.guard = s.guard
	for rank := range s.job.Size {
		if s.stopAsked() {
			s.job.Trace("started %d of %d ranks", rank, s.job.Size)
			return nil
		}
		c, err := sp.start(rank)
		if err != nil {
			return err
		}
		s.children = append(s.children, c)
		s.byPID[c.pid] = c
		s.running++
		s.talking++
	}
	s.job.Trace("started %s", count(s.job.Size, "rank"))
	return nil
}

// stopAsked looks, without waiting, whether the job is to be stopped.
func (s *supervisor) stopAsked() bool {
	select {
	case sig := <-s.job.Signals:
		s.handle(sig)
	case <-s.timeout:
		s.timeIsUp()
	default:
	}
	return s.cause.kind != none
}

func (s *supervisor) timeIsUp() {
	if s.running > 0 || len(s.children) < s.job.Size { // else only leftovers remain
		s.late = s.stragglers()
		s.begin(cause{kind: byTimeout})
	}
}

// abandon ends the ranks of a job that could not be started as a whole.
func (s *supervisor) abandon() {
	s.cause = cause{kind: byError}
	s.kill()
}

// loop runs until all ranks have ended, with all that they have left in their
// process groups.
func (s *supervisor) loop() {
	for s.running > 0 || s.talking > 0 || s.leftovers() {
		select {
		case <-s.ending:
			s.reap()
		case sig := <-s.job.Signals:
			s.handle(sig)
		case e := <-s.events:
			s.receive(e)
		case err := <-s.broken:
			s.begin(cause{kind: byOutput, err: err})
		case <-s.timeout:
			s.timeIsUp()
		case <-s.grace:
			s.terminate()
		case <-s.killAt:
			s.kill()
		case <-s.lost:
			s.job.Screen.Err.Printf("treerun: some processes could not be killed: they hang in the kernel")
			return
		}
	}
	s.job.Trace("all ranks have ended")
}

// begin begins to end the job. Only the first cause counts; a later one that
// asks for more haste is heeded all the same.
func (s *supervisor) begin(c cause) {
	first := s.cause.kind == none
	if first {
		s.cause = c
	}
	switch {
	case c.kind == byFailure && first:
		s.grace = time.After(FailureGrace)
	case c.kind != byFailure && (first || s.grace != nil):
		s.terminate()
	}
}

// terminate tells all ranks, and what ended ones have left, to stop. SIGCONT
// lets stopped processes hear it.
func (s *supervisor) terminate() {
	s.grace = nil
	if s.sweeping || s.lost != nil {
		return // they have been told more than that
	}
	s.job.Trace("stopping %s", count(s.running, "rank"))
	s.markStopped()
	s.signalAll(unix.SIGTERM)
	s.signalAll(unix.SIGCONT)
	s.killAt = time.After(s.job.ShutdownTimeout)
}

// kill ends all ranks and what they have left, at once.
func (s *supervisor) kill() {
	s.grace, s.killAt = nil, nil
	s.job.Trace("killing %s", count(s.running, "rank"))
	s.markStopped()
	s.signalAll(unix.SIGKILL)
	if s.lost == nil {
		s.lost = time.After(lostAfter)
	}
}

func (s *supervisor) markStopped() {
	for _, c := range s.children {
		if c.end == nil {
			c.stopped = true
		}
	}
}

// leftovers tells whether processes are left in the groups of ranks, all of
// which have ended, and begins to stop them. If the job was being stopped, they
// know, and have the time that ranks have.
func (s *supervisor) leftovers() bool {
	lives := false
	for _, c := range s.children {
		lives = lives || c.groupLives()
	}
	if lives && !s.sweeping {
		s.sweeping = true
		s.job.Trace("stopping processes that ranks have left running")
		if s.killAt == nil && s.lost == nil {
			s.signalAll(unix.SIGTERM)
			s.signalAll(unix.SIGCONT)
			s.killAt = time.After(leftoverGrace)
		}
	}
	return lives
}

// close closes what is still open of the ranks.
func (s *supervisor) close() {
	for _, c := range s.children {
		c.close()
	}
}

// exitCode returns the exit code of the job.
func (s *supervisor) exitCode() int {
	switch s.cause.kind {
	case none:
		return 0
	case byFailure:
		if first, ok := firstFailure(s.ends()); ok {
			return first.exitCode()
		}
	case bySignal:
		return exitcode.Signal(s.cause.signal)
	case byTimeout:
		return exitcode.Timeout
	case byOutput:
		if errors.Is(s.cause.err, syscall.EPIPE) {
			return exitcode.Signal(syscall.SIGPIPE)
		}
	}
	return exitcode.Internal
}
