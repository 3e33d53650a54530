package tcp

import (
	"fmt"
	"sync"

	"github.com/treerun/treerun/transport"
)

// record is what is known of the calls of one rank.
type record struct {
	total uint64 // calls entered
	calls [remembered]transport.Header
}

// add notes call h as number total.
func (r *record) add(total uint64, h *transport.Header) {
	r.total = total
	r.calls[total%remembered] = *h
}

func (r *record) before(back int) (transport.Header, bool) {
	if back < 0 || back > transport.History || uint64(back) >= r.total {
		return transport.Header{}, false
	}
	return r.calls[(r.total-uint64(back))%remembered], true
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
	b.calls[self].add(b.calls[self].total+1, h)
	b.mu.Unlock()
}

// entered returns how many calls a rank has entered.
func (b *board) entered(rank int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[rank].total
}

// status appends the body of a status frame of this rank.
func (b *board) status(to []byte, self int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := &b.calls[self]
	var calls [remembered]transport.Header
	n := int(min(own.total, remembered))
	for i := range n {
		calls[i], _ = own.before(n - 1 - i)
	}
	return encodeStatus(to, own.total, calls[:n])
}

// heard takes in the body of a status frame of rank r.
func (b *board) heard(r int, body []byte) error {
	var calls [remembered]transport.Header
	total, n, err := decodeStatus(body, &calls)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if total < b.calls[r].total {
		return fmt.Errorf("%w: status of call %d after call %d", transport.ErrCorrupt, total, b.calls[r].total)
	}
	for i := range n {
		b.calls[r].add(total-uint64(n-1-i), &calls[i])
	}
	return nil
}

// lookup returns the call that a rank entered back calls before its latest.
func (b *board) lookup(rank, back int) (transport.Header, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[rank].before(back)
}
