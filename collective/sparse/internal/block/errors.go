package block

import "errors"

// ErrProtocol is wrapped by errors of packets and chunks that the protocol does not allow.
var ErrProtocol = errors.New("message that the protocol does not allow")

// ErrMismatch is wrapped by errors of packets and chunks that belong to another tensor, or come from a rank that makes
// another call: with another length, type or block size, or with other settings.
var ErrMismatch = errors.New("the ranks' sparse reductions differ")
