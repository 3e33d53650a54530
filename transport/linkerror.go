package transport

import (
	"errors"
	"fmt"
)

// LinkError is an error of the link to or from a rank.
type LinkError struct {
	Doing string // "sending to"
	Peer  int
	Err   error
}

// Error names the operation of this rank and the peer.
func (e *LinkError) Error() string { return fmt.Sprintf("%s rank %d: %v", e.Doing, e.Peer, e.Err) }

// Unwrap returns the error of the link.
func (e *LinkError) Unwrap() error { return e.Err }

// OnLink returns err, which is nil or an error of the link to or from peer, as a LinkError.
func OnLink(err error, doing string, peer int) error {
	if err == nil {
		return nil
	}
	return &LinkError{doing, peer, err}
}

// CallFault turns the error that stopped rank self in a call or message, named by doing, into the fault that is
// reported to all ranks.
func CallFault(err error, self int, doing string) Fault {
	var known Fault
	var link *LinkError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &link) && errors.Is(err, ErrPeerClosed):
		return ClosedFault(link.Peer, self, doing)
	}
	return Faultf(FaultLink, self, "rank %d in %s: %v", self, doing, err)
}

// ClosedFault is the fault of a rank that has closed its communicator while another made a call.
func ClosedFault(rank, caller int, call string) Fault {
	return Faultf(FaultClosed, rank, "rank %d closed its communicator while rank %d called %s", rank, caller, call)
}
