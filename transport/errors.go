package transport

import "errors"

// ErrPeerClosed is returned by the end of a link whose other end has closed
// its Endpoint: by TryPeek once everything that was sent has been read, by
// TryReserve when the slots that are taken can never come back. Where the set
// has a fault, links leave it to Endpoint.Aborted to tell why, and return none.
var ErrPeerClosed = errors.New("transport: the peer has closed its endpoint")

// ErrClosed is returned by a link of an Endpoint that its own rank has closed.
var ErrClosed = errors.New("transport: endpoint is closed")

// ErrCorrupt is returned when the memory shared with a peer holds what the
// protocol never writes.
var ErrCorrupt = errors.New("transport: peer wrote what the protocol does not allow")
