// Package assist is what an aggregator runs: a process of treerun itself beside the
// ranks of a job, which adds up sparse tensors for them. It has no arguments, reads no
// input, and lives until the launcher says that all ranks have ended. Only package
// cli below cmd/treerun imports it.
package assist

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/rank"
	"github.com/treerun/treerun/rank/job"
)

// Main serves the job that this process was started in. It returns only if it cannot:
// else a signal ends the process, which holds nothing that outlives it.
func Main(args []string) (int, error) {
	if len(args) > 0 || os.Getenv(jobVariable) == "" {
		return 0, exitcode.Errorf(exitcode.Usage, "this is what treerun starts for --aggregators; it is not for people")
	}
	// These are for the program of the ranks. SIGTERM ends an aggregator.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	ctx := context.Background()
	w, err := rank.Init(ctx)
	if err == nil {
		err = sparse.Serve(ctx, w)
	}
	if errors.Is(err, rank.ErrFailed) || errors.Is(err, rank.ErrPeerClosed) {
		for { // ranks have ended, or will: the launcher knows, and ends this process
			time.Sleep(time.Hour)
		}
	}
	return 0, exitcode.Errorf(exitcode.Internal, "%w", err)
}

// jobVariable is set for whatever treerun starts as a part of a job.
const jobVariable = job.EnvFD
