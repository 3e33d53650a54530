package tcp

import (
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport"
)

// remembered is how many calls of a rank are known.
const remembered = transport.History + 1

// record is the list of known calls of one rank, and the body of a status frame in msgpack: the latest calls, at most
// remembered, the oldest first.
type record []call.Header

// latest returns the last of them, zeros where there is none.
func (r record) latest() (h call.Header) {
	if len(r) > 0 {
		h = r[len(r)-1]
	}
	return h
}

// decodeStatus reads the body of a status frame.
func decodeStatus(body []byte) (r record, err error) {
	if err = strict.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: status: %w", transport.ErrCorrupt, err)
	}
	if len(r) > remembered {
		return nil, fmt.Errorf("%w: status with %d calls", transport.ErrCorrupt, len(r))
	}
	return r, nil
}

// board holds the calls that ranks of other hosts have reported.
type board struct {
	mu    sync.Mutex
	calls []record // by rank
}

// store stores the body of a status frame of rank r.
func (b *board) store(r int, body []byte) error {
	reported, err := decodeStatus(body)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now, before := reported.latest().Seq, b.calls[r].latest().Seq; now < before {
		return fmt.Errorf("%w: status of call %d after call %d", transport.ErrCorrupt, now, before)
	}
	b.calls[r] = reported
	return nil
}

// lookup returns the call that a rank entered back calls before its latest.
func (b *board) lookup(rank, back int) (call.Header, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls[rank]
	if back < 0 || back >= len(calls) {
		return call.Header{}, false
	}
	return calls[len(calls)-1-back], true
}
