package block

import "errors"

// ErrProtocol is in the errors of packets and chunks that a protocol does not allow.
var ErrProtocol = errors.New("message that the protocol does not allow")

// ErrMismatch is in the errors of those that belong to another tensor, or come from a rank whose
// call is another: of another length, type or block size, or with other settings.
var ErrMismatch = errors.New("the ranks' sparse reductions differ")
