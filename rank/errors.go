package rank

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

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

	// ErrAgain: the epoch is over for this rank, and another one may follow. A program returns it, or an error that wraps
	// it, from a boundary of its own at which it leaves because World.Changed is ready.
	ErrAgain = errors.New("the epoch is over")

	// ErrRenew: the job does not continue after the loss of a rank, or this rank takes no part in that.
	ErrRenew = errors.New("there is no other epoch")

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

	again bool // another epoch may follow
}

// Again reports whether the failure ended an epoch after which another one may follow.
func (e *Error) Again() bool { return e.again }

// renewing is set where this process takes part in the epochs of a job.
var renewing atomic.Bool

// Again reports whether err means that an epoch of the job is over, and that another one may follow: a rank was lost or
// has renewed, a link broke, or the program has returned ErrAgain. It is true for errors of package collective, too. It
// is false for every error in a job that does not continue after the loss of a rank (treerun --on-failure).
func Again(err error) bool { return renewing.Load() && again(err) }

// again reports whether any error that err wraps means that an epoch is over.
func again(err error) bool {
	if known, is := err.(interface{ Again() bool }); is && known.Again() || err == ErrAgain {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return again(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), again)
	}
	return false
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
