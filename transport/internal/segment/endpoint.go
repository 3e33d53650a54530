package segment

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// Endpoint is one rank's view of a segment: transport.Endpoint without Bell
// and Close, which depend on how ranks sleep and where the memory came from.
//
// All methods may be called concurrently, unless their comments exclude that. After Leave the memory may become private
// zeros (osys.Blank), but must stay readable and writable as long as the Endpoint can be reached.
type Endpoint struct {
	board // the part of it that all ranks read and write at any time
	heaps // and the part that Alloc gives out
	m     *Map
	store Store

	links     sync.Mutex // guards the two maps
	senders   map[transport.Link]*sender
	receivers map[transport.Link]*receiver

	fence atomic.Uint32 // written to order memory, and never read

	reach   Reach  // nil where ranks cannot read each other's memory
	noReach string // why reach is nil
}

// New makes rank's view of the segment whose board is b, and whose other areas are in store; all memory is zero at
// first. The function wake wakes rank r, whose bell's word it has just changed.
func New(m *Map, b []byte, rank int, wake func(r int), store Store) *Endpoint {
	e := &Endpoint{m: m, store: store,
		senders: make(map[transport.Link]*sender), receivers: make(map[transport.Link]*receiver)}
	e.board.open(m, b, rank, wake)
	e.heaps.open(m, m.Layout.MemberIndex(rank), store)
	return e
}

// Sender returns the sending end of a link of this rank.
func (e *Endpoint) Sender(lane, dst int) (transport.Sender, error) {
	k := transport.Link{Lane: lane, Src: e.rank, Dst: dst}
	e.links.Lock()
	defer e.links.Unlock()
	if s := e.senders[k]; s != nil {
		return s, nil
	}
	end, ctl, data, err := e.openLink(k, dst)
	if err != nil {
		return nil, err
	}
	s := &sender{end: end, tx: ring.NewTx(ctl, data, e.m.Layout.Slots, e.m.Layout.SlotBytes)}
	e.senders[k] = s
	return s, nil
}

// Receiver returns the receiving end of a link of this rank.
func (e *Endpoint) Receiver(lane, src int) (transport.Receiver, error) {
	k := transport.Link{Lane: lane, Src: src, Dst: e.rank}
	e.links.Lock()
	defer e.links.Unlock()
	if r := e.receivers[k]; r != nil {
		return r, nil
	}
	end, ctl, data, err := e.openLink(k, src)
	if err != nil {
		return nil, err
	}
	r := &receiver{end: end}
	r.rx = ring.NewRx(ctl, data, r.resolve, e.m.Layout.Slots, e.m.Layout.SlotBytes)
	e.receivers[k] = r
	return r, nil
}

// openLink makes this rank's end of a link with a peer. The other end finds the same memory.
func (e *Endpoint) openLink(k transport.Link, peer int) (d end, ctl, data []byte, err error) {
	if !e.m.Layout.Has(k) {
		return d, nil, nil, transport.NoLink(k.Lane, k.Src, k.Dst)
	}
	b, err := e.store.Map(e.m.fifo(k), e.m.fifoBytes)
	if err == nil {
		err = e.store.Allocate(e.m.fifo(k), b[:e.m.ctlSpace])
	}
	if err != nil {
		err = fmt.Errorf("transport: opening the link of lane %d, rank %d -> rank %d: %w", k.Lane, k.Src, k.Dst, err)
		return d, nil, nil, err
	}
	ctl, data = e.m.areas(k, b)
	d = end{e: e, link: k, mem: b, place: e.m.fifo(k), bell: &e.bells[peer], peerClosed: word(e.area(peer), offClosed),
		sync: newRaceSync(e.m, k)}
	return d, ctl, data, nil
}

// MaxPayload returns the slot size in bytes.
func (e *Endpoint) MaxPayload() int { return e.m.Layout.SlotBytes }

// Fence orders earlier posts before later loads.
func (e *Endpoint) Fence() { e.fence.Store(0) }

// FlushStatus does nothing: calls that Enter published are in memory that all ranks read.
func (e *Endpoint) FlushStatus() {}

// Leave marks this rank as closed for the other ranks, and wakes all ranks, including this one, unless that was done
// before. After it, links return transport.ErrClosed.
func (e *Endpoint) Leave() {
	if !e.board.close() {
		return
	}
	deadline := time.Now().Add(withdrawMax)
	e.links.Lock()
	for _, r := range e.receivers {
		r.withdraw(deadline)
	}
	e.links.Unlock()
	e.Aborted() // keep the faults, if any, for callers that come after Close
	e.Decided()
	storeWord(e.area(e.rank), offClosed, 1)
	e.ringAll()
}

// Closed reports whether Leave was called.
func (e *Endpoint) Closed() bool { return e.closed.Load() }
