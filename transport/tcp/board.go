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
	own   record
	peers []record // by rank
}

// enter notes a call of this rank.
func (b *board) enter(h *transport.Header) {
	b.mu.Lock()
	b.own.add(b.own.total+1, h)
	b.mu.Unlock()
}

// entered returns how many calls this rank has entered.
func (b *board) entered() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own.total
}

// status appends the body of a status frame of this rank.
func (b *board) status(to []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var calls [remembered]transport.Header
	n := int(min(b.own.total, remembered))
	for i := range n {
		calls[i], _ = b.own.before(n - 1 - i)
	}
	return encodeStatus(to, b.own.total, calls[:n])
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
	if total < b.peers[r].total {
		return fmt.Errorf("%w: status of call %d after call %d", transport.ErrCorrupt, total, b.peers[r].total)
	}
	for i := range n {
		b.peers[r].add(total-uint64(n-1-i), &calls[i])
	}
	return nil
}

// lookup returns the call that rank r, or this one if own is set, entered back
// calls before its latest.
func (b *board) lookup(r int, own bool, back int) (transport.Header, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own {
		return b.own.before(back)
	}
	return b.peers[r].before(back)
}
