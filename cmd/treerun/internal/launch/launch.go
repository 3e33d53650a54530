// Package launch runs one job on this host: it starts the ranks, shows what
// they print, passes messages and signals between them and the user, and ends
// with all of them ended and the cause of a failure named. It parses no command
// line and knows nothing of collectives. Only the packages below cmd/treerun
// import it.
//
// One goroutine, which keeps its operating system thread, starts, signals and
// waits for all ranks (supervisor). So the kernel ends the ranks when the
// launcher dies, whatever kills it, and a process group is never signalled
// after its number could have gone to somebody else. Streams and control
// sockets have goroutines of their own, which only pass things on.
package launch

import (
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/rank/job"
)

// FailureGrace is how long the other ranks may go on after one has failed, to
// say what they know about it, before they are stopped.
const FailureGrace = 500 * time.Millisecond

// Job says what to run and how.
type Job struct {
	Path  string   // of the executable, absolute
	Args  []string // of each rank, from argv[0] on
	Dir   string   // working directory of the ranks
	Env   []string // environment of the ranks; theirs of this job is added
	Size  int      // number of ranks
	Bind  Bind     // to which cores; with Cores, how many this host lets the job use
	Cores int

	Settings        map[string]string // for package rank, the same on all ranks
	Timeout         time.Duration     // of the whole job; 0: none
	ShutdownTimeout time.Duration     // from SIGTERM to SIGKILL

	Tag       bool   // put "[rank] " in front of each line
	OutputDir string // also write what each rank prints to files here; "": do not
	Stdin     *os.File
	Screen    *output.Screen

	Signals <-chan os.Signal // from the function Signals
	Started func() error     // called once all ranks run, or one could not be started
	Trace   func(format string, args ...any)
}

// Run runs the job and returns the exit code for it; what went wrong in a rank
// has then been reported on the screen. An error is treerun's own, carries the
// exit code, and has not been reported.
//
// While Run runs, it owns all child processes of this process, and waits for
// whichever ends. Call it once per process.
func Run(j *Job) (int, error) {
	runtime.LockOSThread() // the parent-death signal follows the thread
	defer runtime.UnlockOSThread()

	// Nothing that we have inherited is for the ranks, and what we open is
	// close-on-exec anyway. Before Linux 5.11 it stays as it is.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	// Orphans of ranks become our children: so we see which process groups
	// still live. Without it, such orphans are not swept.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		j.Trace("orphans of ranks will not be seen: %v", err)
	}

	s := newSupervisor(j)
	defer s.close()
	err := s.startAll()
	if startedErr := j.Started(); err == nil && startedErr != nil {
		err = exitcode.Errorf(exitcode.Internal, "%w", startedErr)
	}
	if err != nil {
		s.abandon()
	}
	s.loop()
	s.guard.Dismiss() // no group has a member left
	complete := s.drain()
	StopSignals() // from here on a signal ends us as it ends any program
	if err != nil {
		s.flush()
		return exitcode.Of(err), err
	}
	if complete {
		s.report()
	}
	s.flush()
	return s.exitCode(), nil
}

// names are the environment variables that every rank gets.
var names = []string{
	job.EnvFD, job.EnvJobID, job.EnvRank, job.EnvSize, job.EnvLocalRank, job.EnvLocalSize,
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
}

// Names returns the names of the environment variables that every rank gets
// from treerun.
func Names() []string { return slices.Clone(names) }
