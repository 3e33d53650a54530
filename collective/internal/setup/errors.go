package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// The kinds of errors; test with errors.Is.
var (
	// ErrArgument: the call cannot be made with these arguments. Nothing was
	// sent, the communicator stays usable.
	ErrArgument = errors.New("invalid argument")

	// ErrBusy: another goroutine is in a call on the same communicator. Nothing
	// was sent.
	ErrBusy = errors.New("another call is under way on this communicator")

	// ErrClosed: this rank has closed the communicator.
	ErrClosed = errors.New("the communicator is closed")

	// ErrMismatch: the ranks made different calls.
	ErrMismatch = errors.New("ranks called different collectives")

	// ErrRankLost: a rank has ended.
	ErrRankLost = errors.New("a rank is lost")

	// ErrPeerClosed: a rank closed the communicator while others were in a call.
	ErrPeerClosed = errors.New("a rank closed the communicator early")

	// ErrCanceled: the context of a rank's call ended. Where it was canceled, that
	// rank is at fault; where its time was up, the rank that all wait for. On all
	// ranks the error wraps context.Canceled or context.DeadlineExceeded. The
	// contents of the call's slices are undefined; see "After a failure".
	ErrCanceled = errors.New("a call was canceled")

	// ErrStalled: a rank has waited for longer than the stall timeout; see
	// WithStallTimeout.
	ErrStalled = waits.ErrStalled

	// ErrAborted: a rank called Abort, or its function in a call or its observer panicked.
	ErrAborted = errors.New("a rank aborted the communicator")

	// ErrLink: a link between two ranks broke, or carried invalid data.
	ErrLink = errors.New("a link failed")

	// ErrDevice: a device of a rank, or its driver, failed an operation. On that rank the error wraps a *cuda.Error as
	// well.
	ErrDevice = errors.New("a device failed")

	// ErrDisagree: the ranks have different settings, graphs or plans.
	ErrDisagree = errors.New("the ranks do not agree")
)

// RankError is the first failure of a communicator, the same one on all ranks.
//
// When a call has returned it, no process writes to the buffers of the communicator's calls any more, with one
// exception: the process of another rank of this host that was stopped (SIGSTOP, a debugger) for more than a second in
// the middle of a copy to a buffer of 64 KiB or more finishes that copy when it is resumed.
type RankError struct {
	Rank int    // the rank at fault, -1 when it is not one rank's
	Comm string // the communicator whose rank that is, "" for the first one of the World
	Op   string // the call that this rank made, as "AllReduce #41 (sum of 1000 float32)"
	Err  error  // the cause; wraps one of the errors above
	Hint string // the state of the call's slices, "" when there is nothing to report

	again bool
}

// Again reports whether the failure ended an epoch of the job after which another one may follow: a rank was lost or
// has left, a link broke, or the World's context ended with the epoch. It is false in a World that does not renew.
func (e *RankError) Again() bool { return e.again }

// InEpoch returns e, a failure of a communicator of w, and has it report whether another epoch may follow.
func InEpoch(w World, e *RankError) *RankError {
	if renews(w) && e.Rank >= 0 {
		is := func(kind error) bool { return errors.Is(e.Err, kind) }
		_, lost := w.Failure()
		e.again = is(ErrRankLost) || is(ErrPeerClosed) || is(ErrLink) || is(ErrCanceled) && lost != nil
	}
	return e
}

// Error names the call, the rank at fault and the cause.
func (e *RankError) Error() string {
	rank, text := fmt.Sprintf("rank %d", e.Rank), fmt.Sprint(e.Err)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	op := e.Op
	if e.Comm != "" {
		op += " on " + e.Comm
	}
	if e.Rank < 0 || strings.HasPrefix(text, rank+" ") || strings.HasPrefix(text, rank+":") {
		return fmt.Sprintf("collective: %s: %s", op, text) // it names the rank itself
	}
	return fmt.Sprintf("collective: %s: %s: %s", op, rank, text)
}

// Unwrap returns the cause.
func (e *RankError) Unwrap() error { return e.Err }

// renews reports whether another epoch of the job may follow that of w.
func renews(w World) bool {
	job, _ := inJob(w, 0)
	r, is := job.(interface{ Renews() bool })
	return is && r.Renews()
}

// faultError is a transport.Fault as an error: its text is the fault's.
type faultError struct {
	text  string
	wraps []error
}

func (e *faultError) Error() string   { return e.text }
func (e *faultError) Unwrap() []error { return e.wraps }

// kinds are the errors of the kinds of faults.
var kinds = [...][]error{
	transport.FaultLost:     {ErrRankLost},
	transport.FaultMismatch: {ErrMismatch},
	transport.FaultClosed:   {ErrPeerClosed},
	transport.FaultCanceled: {ErrCanceled, context.Canceled},
	transport.FaultLink:     {ErrLink},
	transport.FaultAborted:  {ErrAborted},
	transport.FaultStalled:  {ErrStalled},
	transport.FaultDevice:   {ErrDevice},
	transport.FaultTimeout:  {ErrCanceled, context.DeadlineExceeded},
}

// ErrorOf returns a fault as an error: its text, and its kind, one of the errors above, with that of the context where
// one has ended.
func ErrorOf(f transport.Fault) error {
	return &faultError{kernel.WithTypeNames(f.Text), kinds[f.Kind]}
}

// DeviceError is ErrorOf for a failed operation of a rank's device. It also wraps the cause, where it is known on this
// rank; on others cause is nil.
func DeviceError(text string, cause error) error {
	e := &faultError{text, []error{ErrDevice}}
	if cause != nil {
		e.wraps = append(e.wraps, cause)
	}
	return e
}
