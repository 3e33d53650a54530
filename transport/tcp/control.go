package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport"
)

// remembered is how many calls a status frame may hold.
const remembered = transport.History + 1

// The body of a status frame: the number of calls that the rank has entered so
// far, 8 bytes, and the latest of them, the oldest first.

func encodeStatus(to []byte, total uint64, calls []transport.Header) []byte {
	to = binary.LittleEndian.AppendUint64(to, total)
	for i := range calls {
		var b [callBytes]byte
		putCall(b[:], &calls[i])
		to = append(to, b[:]...)
	}
	return to
}

// decodeStatus returns the number of all calls, and how many of them were put
// into calls.
func decodeStatus(body []byte, calls *[remembered]transport.Header) (total uint64, n int, err error) {
	if len(body) < 8 || (len(body)-8)%callBytes != 0 || (len(body)-8)/callBytes > remembered {
		return 0, 0, fmt.Errorf("%w: status of %d bytes", transport.ErrCorrupt, len(body))
	}
	total = binary.LittleEndian.Uint64(body)
	n = (len(body) - 8) / callBytes
	if uint64(n) > total {
		return 0, 0, fmt.Errorf("%w: status with %d calls of %d", transport.ErrCorrupt, n, total)
	}
	for i := range n {
		getCall(body[8+i*callBytes:], &calls[i])
	}
	return total, n, nil
}

// report is a fault on its way to all ranks: the body of a fault frame, in msgpack.
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
