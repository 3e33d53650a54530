package rank

import (
	"errors"
	"fmt"
	"strings"

	"github.com/treerun/treerun/rank/internal/exchange"
)

// Errors that callers may look for with errors.Is.
var (
	// ErrClosed: this rank has closed its world.
	ErrClosed = exchange.ErrClosed

	// ErrPeerClosed: another rank has closed its world in good order, so that
	// it takes no part in the call.
	ErrPeerClosed = exchange.ErrPeerClosed

	// ErrFailed: a rank has ended without closing its world, or its host, its
	// connections or the launcher are lost.
	ErrFailed = exchange.ErrFailed

	// ErrStalled: a rank has waited for longer than the stall timeout.
	ErrStalled = exchange.ErrStalled

	// ErrKey: the other side does not know the secret of this job.
	ErrKey = errors.New("does not know the key of this job")

	// ErrInit: Init was called a second time in one process.
	ErrInit = errors.New("Init has been called before in this process")
)

// Error is what went wrong between the ranks of a job.
type Error struct {
	Self int    // the rank that reports it, -1 when it does not know its rank yet
	Rank int    // the rank at fault, -1 when it is not one rank's
	Op   string // what Self was doing, such as "Init"; "" for news of a failure
	Err  error  // what happened
	Hint string // what may help, "" when there is nothing to say
}

// Error names the ranks, the operation, what happened, and the hint. News of a
// failure, which has no operation, is only what happened: the caller knows of
// whom.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString("rank: " + e.Op)
		if e.Self >= 0 {
			fmt.Fprintf(&b, " on rank %d", e.Self)
		}
		b.WriteString(": ")
		if e.Rank >= 0 {
			fmt.Fprintf(&b, "rank %d ", e.Rank)
		}
	}
	text, space := e.Err.Error(), " "
	if strings.Contains(text, "\n") {
		space = "\n" // below a list
	}
	b.WriteString(text)
	if e.Hint != "" {
		b.WriteString(space + "(" + e.Hint + ")")
	}
	return b.String()
}

// AtFault returns the rank at fault, -1 when it is not one rank's. Package
// transport/shm asks errors of AllGather for it without knowing this type.
func (e *Error) AtFault() int { return e.Rank }

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }
