package tcp

import (
	"fmt"
	"sync"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/transport"
)

// remembered is how many calls of a rank are known.
const remembered = transport.History + 1

// record is what is known of the calls of one rank: the body of a status frame, in msgpack.
type record struct {
	Total uint64             // calls entered
	Calls []transport.Header // the latest of them, at most remembered, the oldest first
}

// decodeStatus reads the body of a status frame.
func decodeStatus(body []byte) (r record, err error) {
	if err = strict.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("%w: status: %w", transport.ErrCorrupt, err)
	}
	if n := len(r.Calls); n > remembered || uint64(n) > r.Total {
		return r, fmt.Errorf("%w: status with %d calls of %d", transport.ErrCorrupt, n, r.Total)
	}
	return r, nil
}

// board has the latest calls of this rank, and what the others have told of
// theirs.
type board struct {
	mu    sync.Mutex
	calls []record // by rank
}

// enter notes a call of this rank.
func (b *board) enter(self int, h *transport.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := &b.calls[self]
	own.Total++
	if len(own.Calls) == remembered {
		own.Calls = own.Calls[:copy(own.Calls, own.Calls[1:])]
	}
	own.Calls = append(own.Calls, *h)
}

// status returns how many calls this rank has entered, and, unless others know of all, the body of a status frame.
func (b *board) status(self int, told uint64) (total uint64, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := &b.calls[self]
	if own.Total != told {
		body = strict.Marshal(own)
	}
	return own.Total, body
}

// heard takes in the body of a status frame of rank r.
func (b *board) heard(r int, body []byte) error {
	told, err := decodeStatus(body)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if told.Total < b.calls[r].Total {
		return fmt.Errorf("%w: status of call %d after call %d", transport.ErrCorrupt, told.Total, b.calls[r].Total)
	}
	b.calls[r] = told
	return nil
}

// lookup returns the call that a rank entered back calls before its latest.
func (b *board) lookup(rank, back int) (transport.Header, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls[rank].Calls
	if back < 0 || back >= len(calls) {
		return transport.Header{}, false
	}
	return calls[len(calls)-1-back], true
}
