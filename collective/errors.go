package collective

import (
	"errors"

	"github.com/treerun/treerun/collective/internal/setup"
)

// The errors of a communicator; test for them with errors.Is.
var (
	// ErrArgument: the call is not valid with these arguments. Nothing was sent, and the communicator stays usable.
	ErrArgument = setup.ErrArgument

	// ErrBusy: another goroutine is in a call on the same communicator. Nothing
	// was sent.
	ErrBusy = setup.ErrBusy

	// ErrClosed: this rank has closed the communicator.
	ErrClosed = setup.ErrClosed

	// ErrMismatch: the ranks made different calls.
	ErrMismatch = setup.ErrMismatch

	// ErrRankLost: a rank has ended.
	ErrRankLost = setup.ErrRankLost

	// ErrPeerClosed: a rank closed the communicator while others were in a call.
	ErrPeerClosed = setup.ErrPeerClosed

	// ErrCanceled: the context of a rank's call ended. The rank at fault is the rank whose context was canceled, or, after
	// a deadline, the rank that all ranks wait for. On all ranks the error wraps context.Canceled or
	// context.DeadlineExceeded. The contents of the call's slices are undefined; see "After a failure".
	ErrCanceled = setup.ErrCanceled

	// ErrStalled: a rank has waited for longer than the stall timeout; see
	// WithStallTimeout.
	ErrStalled = setup.ErrStalled

	// ErrAborted: a rank called Abort, or its function in a call (see AllReduceFunc) or its observer panicked.
	ErrAborted = setup.ErrAborted

	// ErrLink: a link between two ranks broke, or carried data that violates its protocol.
	ErrLink = setup.ErrLink

	// ErrDevice: a device of a rank, or its driver, failed. On that rank the error wraps a *cuda.Error as well.
	ErrDevice = setup.ErrDevice

	// ErrDisagree: the ranks have different settings, graphs or plans.
	ErrDisagree = setup.ErrDisagree

	// ErrNoState: no rank has the state that Restore is to give to all.
	ErrNoState = errors.New("no rank has the state: all have version -1")
)

// RankError is the first failure of a communicator, the same one on all ranks.
//
// When a call has returned it, nothing writes to the buffers of the communicator's calls any more, with one exception:
// if the process of another rank of this host was stopped (SIGSTOP, a debugger) for more than a second in the middle of
// a copy to a buffer of 64 KiB or more, it finishes that copy when it resumes.
//
// Its fields are Rank, the rank at fault, or -1 if no single rank is at fault; Op, the call that this rank made, such
// as "AllReduce #41 (sum of 1000 float32)"; Err, the failure, which wraps one of the errors above; and Hint, the state
// of the call's slices, or "" if there is nothing to report.
type RankError = setup.RankError
