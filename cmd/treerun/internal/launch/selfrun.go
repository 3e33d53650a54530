//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

// RankName returns the first argument of a rank that does its part of a subcommand:
// cmd/treerun has it in its table of commands. No PROGRAM has such a name
// without a slash.
func RankName(subcommand string) string { return "rank:" + subcommand }

// selfShutdownTimeout is the time that ranks have from SIGTERM to SIGKILL. They own nothing that outlives them.
const selfShutdownTimeout = 2500 * time.Millisecond

// RunSelf runs a subcommand of treerun as a job: ranks of this very executable, with a subcommand that is not
// documented for users. So it measures with real ranks, started like those of any job, and its launcher keeps the
// terminal, the files and the exit code. It uses these fields of the Job: Size, Hosts, Remote, GPUs, Settings, Timeout
// and the Screen, whose Err receives the stderr of the ranks, and reports of failures.
//
// result receives the stdout of rank 0; the other ranks write nothing there. One goroutine calls Write, and none does
// when RunSelf has returned. An error of Write stops the job, and is returned as it is. RunSelf returns as Run does.
// Call it once per process.
func RunSelf(subcommand string, args []string, j *Job, result io.Writer) (int, error) {
	if err := host.CheckAddressSpace(); err != nil {
		return 0, err
	}
	runtime.LockOSThread() // the ranks die with this thread
	defer runtime.UnlockOSThread()
	var err error
	if j.Dir, err = os.Getwd(); err != nil {
		return 0, fmt.Errorf("find the working directory: %w", err)
	}
	if j.Stdin, err = os.Open(os.DevNull); err != nil {
		return 0, fmt.Errorf("start ranks: %w", err)
	}
	defer j.Stdin.Close()
	j.Path = "/proc/self/exe" // this very program, even where its file has been replaced
	j.Program = "treerun " + subcommand
	j.Args = append([]string{"treerun", RankName(subcommand)}, args...)
	j.Env, j.ShutdownTimeout = os.Environ(), selfShutdownTimeout
	j.SigtermCode = cmdline.SignalCode(syscall.SIGTERM)
	j.Started, j.Trace = func() error { return nil }, func(string, ...any) {}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("make a pipe for the results of the ranks: %w", err)
	}
	j.Screen = &output.Screen{Out: output.NewScreen(w, os.Stderr).Out, Err: j.Screen.Err}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(result, r)
		copied <- errors.Join(err, r.Close()) // from here on the ranks' output is refused: the job ends
	}()
	j.Signals = Signals()
	code, err := Run(j)
	_ = w.Close() // nothing is buffered in it
	if resultErr := <-copied; err == nil && resultErr != nil {
		return 0, resultErr
	}
	return code, err
}
