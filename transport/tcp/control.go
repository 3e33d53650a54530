package tcp

import (
	"fmt"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport"
)

// report is a fault that is sent to all ranks: the body of a fault frame, in msgpack.
type report struct {
	By      int // the rank that reports it
	Decided bool
	Fault   transport.Fault
}

// decodeReport reads the body of a fault frame of a set of size ranks.
func decodeReport(body []byte, size int) (r report, err error) {
	if err = strict.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("%w: fault: %w", transport.ErrCorrupt, err)
	}
	if r.By < 0 || r.By >= size || !r.Fault.Valid(size) {
		return r, fmt.Errorf("%w: fault of kind %d, of rank %d, by rank %d, with %d bytes of text",
			transport.ErrCorrupt, r.Fault.Kind, r.Fault.Rank, r.By, len(r.Fault.Text))
	}
	return r, nil
}
