package collective

import "github.com/treerun/treerun/collective/internal/setup"

// What can be wrong; test with errors.Is.
var (
	// ErrArgument: the call cannot be made with these arguments. Nothing was
	// sent, the communicator stays usable.
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

	// ErrCanceled: the context of a rank's call ended. Where it was cancelled, that
	// rank is at fault; where its time was up, the rank that all wait for. On all
	// ranks the error wraps context.Canceled or context.DeadlineExceeded. The
	// contents of the call's slices are undefined; see "After a failure".
	ErrCanceled = setup.ErrCanceled

	// ErrStalled: a rank has waited for longer than the stall timeout; see
	// WithStallTimeout.
	ErrStalled = setup.ErrStalled

	// ErrAborted: a rank called Abort.
	ErrAborted = setup.ErrAborted

	// ErrLink: a link between two ranks broke, or carried what it must not.
	ErrLink = setup.ErrLink

	// ErrDevice: a device of a rank, or its driver, did not do what it was asked
	// for. On that rank the error wraps a *cuda.Error as well.
	ErrDevice = setup.ErrDevice

	// ErrDisagree: the ranks have different settings, graphs or plans.
	ErrDisagree = setup.ErrDisagree
)

// RankError is the first failure of a communicator, the same one on all ranks.
//
// When a call has returned it, nobody writes to the buffers of the communicator's calls any more,
// with one exception: the process of another rank of this host that was stopped (SIGSTOP, a
// debugger) for more than a second in the middle of a copy to a buffer of 64 KiB or more ends
// that copy when it goes on.
//
// Its fields are Rank, the rank at fault, -1 when it is not one rank's; Op, the call that this
// rank made, as "AllReduce #41 (sum of 1000 float32)"; Err, what happened, which wraps one of the
// errors above; and Hint, what has become of the call's slices, "" when there is nothing to say.
type RankError = setup.RankError
