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

// Error is an error between the ranks of a job.
type Error struct {
	Self int    // the rank that reports it, -1 while its number is unknown
	Rank int    // the rank at fault, -1 when it is not a single rank
	Op   string // the operation of Self, such as "Init"; "" for news of a failure
	Err  error  // the cause
	Hint string // a possible remedy, "" for none
}

// Error names the ranks, the operation, the cause, and the hint. News of a failure, which has no operation, is only the
// cause: the caller knows the rank.
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

// AtFault returns the rank at fault, -1 when it is not a single rank. Package transport/shm calls it on errors of
// AllGather without knowing this type.
func (e *Error) AtFault() int { return e.Rank }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
