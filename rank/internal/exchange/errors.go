package exchange

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/internal/waits"
)

// What errors of package rank are.
var (
	ErrClosed     = errors.New("the world is closed")
	ErrPeerClosed = errors.New("has closed its world")
	ErrFailed     = errors.New("failed")
	ErrStalled    = waits.ErrStalled
)

// Fault is what went wrong between the ranks of a job.
type Fault struct {
	Rank int // at fault, -1 when it is not one rank's
	Err  error
}

// Error says which rank it was, and what happened.
func (f *Fault) Error() string {
	if f.Rank < 0 {
		return f.Err.Error()
	}
	return fmt.Sprintf("rank %d %v", f.Rank, f.Err)
}

// Unwrap returns what happened.
func (f *Fault) Unwrap() error { return f.Err }

// reported is what happened, in the words of whoever saw it: "killed by SIGKILL".
type reported struct {
	text string
	kind error // what it is, to errors.Is; nil: nothing in particular
}

func (r reported) Error() string { return r.text }

// Is makes it an error of its kind.
func (r reported) Is(target error) bool { return r.kind != nil && target == r.kind }
