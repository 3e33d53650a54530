package transport

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Fault is the first failure that any rank of an Endpoint set reported. Rank is the rank at fault, -1 if it is not a
// single rank.
type Fault struct {
	Kind FaultKind
	Rank int
	Text string // at most MaxFaultText bytes
}

// Error returns the text: a Fault is an error, too.
func (f Fault) Error() string { return f.Text }

// FaultKind is the kind of failure of a Fault.
type FaultKind uint8

// The kinds of faults.
const (
	FaultLost     FaultKind = iota // a rank has ended, or cannot be reached any more
	FaultMismatch                  // ranks made different calls
	FaultClosed                    // a rank closed its communicator during a call
	FaultCanceled                  // a rank's context was canceled
	FaultLink                      // a link failed, or could not be opened
	FaultAborted                   // a rank aborted the communicator
	FaultStalled                   // a rank made no progress for too long
	FaultDevice                    // a rank's device failed
	FaultTimeout                   // a rank's context reached its deadline
	endOfKinds
)

// Valid reports whether f, which came from outside, can be a fault of a set of size ranks.
func (f *Fault) Valid(size int) bool {
	return f.Kind < endOfKinds && f.Rank >= -1 && f.Rank < size && len(f.Text) <= MaxFaultText
}

// Fit returns f as it is sent in a set of size ranks: with a rank of it or -1, and its text cut to MaxFaultText,
// between characters.
func (f Fault) Fit(size int) Fault {
	if f.Rank < -1 || f.Rank >= size {
		f.Rank = -1
	}
	if n := MaxFaultText; len(f.Text) > n {
		for n > 0 && !utf8.RuneStart(f.Text[n]) {
			n--
		}
		f.Text = f.Text[:n]
	}
	return f
}

// Faultf returns a Fault whose text is formatted.
func Faultf(kind FaultKind, rank int, format string, args ...any) Fault {
	return Fault{Kind: kind, Rank: rank, Text: fmt.Sprintf(format, args...)}
}

// FaultOf returns the kind of fault for the end of a context, whose error is err.
func FaultOf(err error) FaultKind {
	if errors.Is(err, context.DeadlineExceeded) {
		return FaultTimeout
	}
	return FaultCanceled
}

// MaxFaultText bounds the text of a Fault, in bytes.
const MaxFaultText = 512

// ErrNoLink is returned for a link that the Layout does not have.
var ErrNoLink = errors.New("transport: no such link")

// NoLink returns an ErrNoLink that names the link.
func NoLink(lane, src, dst int) error { return fmt.Errorf("%w: %v", ErrNoLink, Link{lane, src, dst}) }

// ErrPeerClosed is returned by the end of a link whose other end has closed its Endpoint: by TryPeek once everything
// that was sent has been read, by TryReserve when the taken slots will never be released. Where the set has a fault,
// links return no error: Endpoint.Aborted returns the cause.
var ErrPeerClosed = errors.New("transport: the peer has closed its endpoint")

// ErrClosed is returned by a link of an Endpoint that its own rank has closed.
var ErrClosed = errors.New("transport: endpoint is closed")

// ErrCorrupt is returned when the memory shared with a peer has contents that the protocol never writes.
var ErrCorrupt = errors.New("transport: peer violated the protocol")
