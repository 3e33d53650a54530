package exchange

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/waits"
)

// Kinds of errors of package rank.
var (
	ErrClosed     = errors.New("the world is closed")
	ErrPeerClosed = errors.New("has closed its world")
	ErrFailed     = errors.New("failed")
	ErrStalled    = waits.ErrStalled
)

// Fault is an error between the ranks of a job.
type Fault struct {
	Rank int // at fault, -1 when it is not one rank's
	Err  error
}

// Error names the rank at fault and the cause.
func (f *Fault) Error() string {
	if f.Rank < 0 {
		return f.Err.Error()
	}
	return fmt.Sprintf("rank %d %v", f.Rank, f.Err)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// reported is a failure in the words of the process that saw it: "killed by SIGKILL".
type reported struct {
	text string
	kind error // matched by errors.Is; nil: no kind
}

func (r reported) Error() string { return r.text }

// Is reports whether target is the kind of the failure.
func (r reported) Is(target error) bool { return r.kind != nil && target == r.kind }
