//go:build linux

// Package launch runs one job: it has the ranks started, on this host and through agents on others, shows their output,
// passes messages and signals between them and the user, and ends with all of them ended and the cause of a failure
// named. It parses no command line and does not depend on collectives. Only the packages below cmd/treerun import it.
//
// One goroutine, the supervisor, gives orders to the hosts and gets their reports
// (package wire). The ranks of this host are run by package host within this
// process, those of others by the same code within their agents.
package launch

import (
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/recording"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/numbers"
)

// After a failure the other ranks may continue for failureGrace before they are stopped: the error reaches them, and
// they report it. Each has the same time after the error has reached a call of it. On a busy host that is late: ranks
// of which no call has failed yet have maxFailureGrace.
const (
	failureGrace    = 500 * time.Millisecond
	maxFailureGrace = 2500 * time.Millisecond
)

// Job describes a program to run, and how.
type Job struct {
	Program string   // as the user gave it
	Path    string   // of the executable, absolute
	Args    []string // of each rank, from argv[0] on; with Parts, those of all, with a colon between two
	Parts   []wire.Part
	Dir     string   // working directory of the ranks
	Env     []string // environment of the ranks on this host; the job's own variables are added
	Exports []string // NAME=VALUE, for ranks on other hosts, which have their own environment
	Size    int      // number of ranks

	Hosts  []JobHost // where they run, in the order in which the ranks name them; none: all on this host
	Idle   []JobHost // hosts without a rank, on which treerun resize may start some
	Remote Remote    // how to reach other hosts
	Cores  cores.Request
	Report bool // print the cores of each rank
	GPUs   gpus.Request

	Settings        map[string]string // for package rank, the same on all ranks
	Lives           membership.Config // what becomes of the job when a rank is lost; its Size is set by Run
	Timeout         time.Duration     // of the whole job; 0: none
	ShutdownTimeout time.Duration     // from SIGTERM to SIGKILL
	Memory          cmdline.Size      // that each rank may use; 0: any
	Debug           []int             // ranks that run under a debugger, in ascending order
	SigtermCode     int               // exit code where SIGTERM has stopped the job and all ranks ended with 0

	Tag       output.Tag
	Show      []int  // ranks whose output is shown; nil: all
	OneOutput bool   // the stderr of each rank is its stdout
	Result    string // file for the result of the job as JSON; "": none
	stored    bool   // it was written
	OutputDir string // also write the output of each rank to files here; "": none
	Stdin     *os.File
	StdinRank int // the rank that reads Stdin, or wire.StdinNone, wire.StdinAll
	Screen    *output.Screen
	Doing     string // what the ranks do that are treerun's own, for a line on a terminal; "": other output shows that

	Events int // that each rank records at most; 0: nothing is recorded
	// Watch, unless it is nil, is called once all ranks have been started. live returns the state of the job, at any time
	// until the job is over, and an error after that.
	Watch    func(live func() (*recording.Live, error))
	Recorded func(*recording.Job) error // called once all ranks have ended

	Signals <-chan os.Signal // from the function Signals
	Started func() error     // called once all ranks run, or one could not be started
	Trace   func(format string, args ...any)
}

// JobHost is one host of a job. Every rank is on one.
type JobHost struct {
	Name   string
	Target string // the name for ssh, or for the launch agent
	Local  bool   // it is this one: its ranks are started directly
	Ranks  []int  // in ascending order, at least one
	Room   int    // number of ranks that the user wants there at most; 0: any
}

// Remote describes how other hosts are reached. The zero value is not valid: see its fields.
type Remote struct {
	wire.AgentOptions
	PushProgram bool          // send the program
	PeerTimeout time.Duration // after which a silent host counts as lost

	// Open, unless it is nil, returns the connections to agents that have connected by themselves, by number of the
	// host. They learn the exit code of the job.
	Open   func(index int) io.ReadWriteCloser
	Again  <-chan Again // nodes that connect during a job that continues after losses; nil: none do
	Master string       // MASTER_ADDR; "": the name of the first host
	JobID  string       // "": a new one
	Hint   string       // for the error of a host that cannot be reached
}

// Again is a node whose treerun was started again.
type Again struct {
	Node   int                       // index of its host
	Name   string                    // of the host
	Accept func() io.ReadWriteCloser // has it take part, and returns the connection to it
	Refuse func() error              // has it try again later
}

// Run runs the job and returns its exit code; the failure of a rank has then been reported on the screen. An error is
// treerun's own, carries the exit code, and has not been reported.
//
// While Run runs, it owns all child processes of this process, and waits for each that ends. Call it once per process.
func Run(j *Job) (int, error) {
	s, err := newSupervisor(j)
	if err != nil {
		return cmdline.ExitCode(err), err
	}
	s.startAll()
	if err := j.Started(); err != nil {
		s.abandon(err)
	}
	s.waitShowing(func() string { return j.Doing }, func() bool { return s.allReached(done) })
	for s.restarts() {
		s.startAll()
		s.wait(func() bool { return s.allReached(done) })
	}
	j.Trace("all ranks have ended")
	s.markExitedWithoutClose()
	s.lateFailure()
	complete := s.drain()
	if err := s.recorded(); err != nil {
		s.job.Screen.Err.Printf("treerun: %v", err)
	}
	s.disconnect()
	signal.Reset(stopSignals...) // from here on a signal ends treerun as it ends any program
	if complete {
		s.report()
	}
	s.writeResult()
	s.flush()
	return s.exitCode(), s.startError()
}

const (
	// unreadGrace is the minimum time that a job which did not end well waits for a reader of the rest of its
	// output, and the maximum time for printing the cause.
	unreadGrace = 500 * time.Millisecond

	// disconnectGrace is the time that agents have for their end.
	disconnectGrace = time.Second
)

// drain waits until all output of the ranks has been written. Where the job has ended well that takes as long as the
// reader does, within the job's time limit. Otherwise output without a reader is dropped in the end. It reports false
// when the user did not want to wait.
func (s *supervisor) drain() (complete bool) {
	s.draining = true
	for _, r := range s.ranks {
		s.cancelWaiting(r, "the job has ended")
	}
	// A process outside the ranks' process groups may hold output open.
	s.after(host.LeftoverGrace, func() { s.broadcast(&wire.Finish{}) })
	if s.cause.kind != noCause { // else its readers have all the time that the job has
		limit := unreadGrace
		if s.cause.kind != byTimeout {
			limit = max(limit, s.job.ShutdownTimeout)
		}
		s.after(limit, s.dropUnreadOutput)
	}
	s.wait(func() bool { return s.printing == 0 || s.skipOutput })
	written, out, err := false, s.job.Screen.Out.Flushed(), s.job.Screen.Err.Flushed()
	go func() {
		<-out
		<-err
		s.post(func() { written = true })
	}()
	s.wait(func() bool { return written || s.outputDropped })
	if s.skipOutput {
		return false
	}
	screen := s.job.Screen
	for _, sink := range []*output.Sink{screen.Out, screen.Err} {
		if n := sink.Dropped(); n > 0 {
			screen.Err.Printf("treerun: %s has no reader: the last %s of the ranks' output may be lost",
				sink.Name(), numbers.Count(n, "byte"))
		}
	}
	return true
}

// dropUnreadOutput drops all unread output: from now on no stream waits for a reader.
func (s *supervisor) dropUnreadOutput() {
	s.outputDropped = true
	s.job.Screen.DropUnread()
	s.broadcast(&wire.Finish{})
}

// flush waits until treerun's own output has been written; not for long, because it may have no reader.
func (s *supervisor) flush() {
	select {
	case <-s.job.Screen.Err.Flushed():
	case <-time.After(unreadGrace):
	}
}

// disconnect ends the connections to other hosts, and the processes that this one has started for them.
func (s *supervisor) disconnect() {
	close(s.quit)
	if s.control != nil {
		s.control.Close()
	}
	if s.job.Remote.Open != nil { // users have started the treeruns of other nodes, and need the exit code there
		r := &wire.Result{Code: s.exitCode()}
		if err := s.startError(); err != nil {
			r.Text = err.Error()
		}
		s.sendTo(wire.All, r) // they disconnect after they have received it
	}
	s.tree.Close(disconnectGrace)
	s.reaper.Close()
}
