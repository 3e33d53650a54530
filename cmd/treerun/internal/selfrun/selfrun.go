// Package selfrun runs a subcommand of treerun as a job: it starts N ranks of
// this very executable, with a subcommand that users are not told of, and hands
// what rank 0 writes to its standard output to the caller as it comes. So a
// subcommand measures with real ranks, started as those of any job, and its
// launcher keeps the terminal, the files and the exit code. It knows nothing of
// what the ranks do. Only the packages below cmd/treerun import it.
package selfrun

import (
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// Name returns the first argument of a rank that does its part of a subcommand:
// package cli has it in its table of commands. No PROGRAM has such a name
// without a slash.
func Name(subcommand string) string { return "rank:" + subcommand }

// Job says what the ranks do.
type Job struct {
	Subcommand string            // without what Name adds
	Args       []string          // of the subcommand, on every rank
	Size       int               // number of ranks, at least 1
	Hosts      []launch.Host     // where they run; none: all on this host
	Remote     launch.Remote     // how to reach other hosts
	GPUs       *gpus.Request     // which they get; nil: none
	Settings   map[string]string // for package rank, the same on all ranks; nil: none
	Timeout    time.Duration     // of the whole job; 0: none

	// Result gets what rank 0 writes to stdout; the other ranks write nothing
	// there. One goroutine calls Write, and none does when Run has returned. An
	// error of Write stops the job.
	Result io.Writer
	Screen *output.Screen // what ranks write to stderr, and reports of failures, go to its Err
}

// shutdownTimeout is the time that ranks have from SIGTERM to SIGKILL. They
// hold nothing that outlives them.
const shutdownTimeout = 2 * time.Second

// Run runs the job and returns its exit code, as launch.Run does: what went
// wrong in a rank has then been reported on the screen, and an error has not.
// An error of Result comes back as it is. Call it once per process.
func Run(j *Job) (int, error) {
	if err := host.CheckLimits(); err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the ranks die with this thread
	defer runtime.UnlockOSThread()
	lj, err := launchJob(j)
	if err != nil {
		return 0, err
	}
	defer lj.Stdin.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, exitcode.Errorf(exitcode.Internal, "make a pipe for what the ranks find: %w", err)
	}
	lj.Screen = &output.Screen{Out: output.NewScreen(w, os.Stderr).Out, Err: j.Screen.Err}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(j.Result, r)
		copied <- errors.Join(err, r.Close()) // from here on the ranks' output is refused: the job ends
	}()
	lj.Signals = launch.Signals()
	code, err := launch.Run(lj)
	_ = w.Close() // nothing is buffered in it
	if resultErr := <-copied; err == nil && resultErr != nil {
		return 0, resultErr
	}
	return code, err
}

func launchJob(j *Job) (*launch.Job, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, exitcode.Errorf(exitcode.Internal, "find the working directory: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, exitcode.Errorf(exitcode.Internal, "start ranks: %w", err)
	}
	settings := j.Settings
	if settings == nil {
		settings = make(map[string]string)
	}
	request := gpus.Request{Bind: gpus.None}
	if j.GPUs != nil {
		request = *j.GPUs
	}
	return &launch.Job{
		GPUs: request,
		Path: "/proc/self/exe", // this very program, even where its file has been replaced
		Args: append([]string{"treerun", Name(j.Subcommand)}, j.Args...),
		Dir:  dir, Env: os.Environ(), Size: j.Size, Hosts: j.Hosts, Remote: j.Remote, Settings: settings,
		Cores:   cmdline.UsableCores(),
		Timeout: j.Timeout, ShutdownTimeout: shutdownTimeout,
		Stdin:   null,
		Started: func() error { return nil },
		Trace:   func(string, ...any) {},
	}, nil
}
