package segment

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/ring"
)

// Endpoint is one rank's view of a segment: transport.Endpoint without Bell
// and Close, which depend on how ranks sleep and where the memory came from.
//
// All methods may be called concurrently, unless their comments exclude that. After Leave the memory may become private
// zeros (osys.Blank), but must stay readable and writable as long as the Endpoint can be reached.
type Endpoint struct {
	m     *Map
	mem   []byte // the board
	rank  int
	store Store
	bells []BellWord

	links     sync.Mutex // guards the two maps
	senders   map[transport.Link]*sender
	receivers map[transport.Link]*receiver

	fence  atomic.Uint32                              // written to order memory, and never read
	faults [elections]atomic.Pointer[transport.Fault] // the elected ones, once read
	closed atomic.Bool

	mu      sync.Mutex      // serialises elect
	written [elections]bool // this rank's own records

	member  int        // index of this rank among the members
	heap    heap       // of this rank
	mapping sync.Mutex // serialises Map
	parts   heapParts  // of the heaps of all ranks

	reach   Reach  // nil where ranks cannot read each other's memory
	noReach string // why reach is nil
}

// New makes rank's view of the segment whose board is b, and whose other areas are in store; all memory is zero at
// first. The function wake wakes rank r, whose bell's word it has just changed.
func New(m *Map, b []byte, rank int, wake func(r int), store Store) *Endpoint {
	e := &Endpoint{
		m: m, mem: b, rank: rank, store: store,
		bells:     make([]BellWord, m.Layout.Size),
		member:    m.Layout.MemberIndex(rank),
		heap:      heap{size: m.Layout.HeapBytes},
		parts:     newHeapParts(&m.Layout),
		senders:   make(map[transport.Link]*sender),
		receivers: make(map[transport.Link]*receiver),
	}
	for r := range e.bells {
		e.bells[r] = BellWord{word: word(m.rank(b, r), 0), wake: func() { wake(r) }}
	}
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
	end, ctl, data, err := e.open(k, dst)
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
	end, ctl, data, err := e.open(k, src)
	if err != nil {
		return nil, err
	}
	r := &receiver{end: end}
	r.rx = ring.NewRx(ctl, data, r.elsewhere, e.m.Layout.Slots, e.m.Layout.SlotBytes)
	e.receivers[k] = r
	return r, nil
}

// open makes this rank's end of a link with a peer. The other end finds the same memory.
func (e *Endpoint) open(k transport.Link, peer int) (d end, ctl, data []byte, err error) {
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
	return newEnd(e, k, b, peer), ctl, data, nil
}

// BellWord returns the word of rank r's bell.
func (e *Endpoint) BellWord(r int) *BellWord { return &e.bells[r] }

// MaxPayload returns the slot size in bytes.
func (e *Endpoint) MaxPayload() int { return e.m.Layout.SlotBytes }

// Fence orders earlier posts before later loads.
func (e *Endpoint) Fence() { e.fence.Store(0) }

// Enter publishes the call that this rank begins. One goroutine calls it.
func (e *Endpoint) Enter(h *call.Header) { publishCall(e.m.rank(e.mem, e.rank), h) }

// FlushStatus does nothing: calls that Enter published are in memory that all ranks read.
func (e *Endpoint) FlushStatus() {}

// Sends publishes that this rank sends messages.
func (e *Endpoint) Sends() { storeWord(e.m.rank(e.mem, e.rank), offSends, 1) }

// Status returns the latest status that rank r has published; after Leave it may be empty.
func (e *Endpoint) Status(r int) transport.Status {
	board := e.m.rank(e.mem, r)
	closed := loadWord(board, offClosed) != 0 // before the call: a closed rank enters none
	call, _ := readCall(board, 0)
	return transport.Status{Call: call, Closed: closed, Sends: loadWord(board, offSends) != 0}
}

// CallBefore returns the call that rank r published back calls before its
// latest one.
func (e *Endpoint) CallBefore(r, back int) (call.Header, bool) {
	if back < 0 || back > transport.History {
		return call.Header{}, false
	}
	return readCall(e.m.rank(e.mem, r), uint32(back))
}

// Abort reports f, which becomes the fault of the set unless it has one, and
// wakes every rank.
func (e *Endpoint) Abort(f transport.Fault) { e.elect(f, reported) }

// Decide makes f the fault of these ranks where they are a part of a larger set, which elects: their reports by Abort
// are then only proposals.
func (e *Endpoint) Decide(f transport.Fault) { e.elect(f, decided, reported) }

// elect proposes f in elections, and wakes every rank.
func (e *Endpoint) elect(f transport.Fault, in ...int) {
	f = f.Fit(e.m.Layout.Size)
	e.mu.Lock()
	for _, i := range in {
		if w := e.electionWord(i); !e.closed.Load() && !e.written[i] && atomic.LoadUint32(w) == 0 {
			writeRecord(record(e.m.rank(e.mem, e.rank), i), f)
			e.written[i] = true
			atomic.CompareAndSwapUint32(w, 0, uint32(e.rank)+1)
		}
	}
	e.mu.Unlock()
	e.ringAll()
}

func (e *Endpoint) electionWord(i int) *uint32 { return word(e.mem, offFault+4*i) }

// Aborted returns the first fault that was reported. Before there is one it costs two loads of lines that are not
// written.
func (e *Endpoint) Aborted() (transport.Fault, bool) { return e.elected(reported) }

// Decided returns the fault that Decide has made the fault of these ranks.
func (e *Endpoint) Decided() (transport.Fault, bool) { return e.elected(decided) }

// elected returns the fault that won an election, and keeps it.
func (e *Endpoint) elected(i int) (transport.Fault, bool) {
	if f := e.faults[i].Load(); f != nil {
		return *f, true
	}
	w := atomic.LoadUint32(e.electionWord(i))
	if w == 0 {
		return transport.Fault{}, false
	}
	f := transport.Faultf(transport.FaultLink, -1, "fault word holds %d with %d ranks", w, e.m.Layout.Size)
	if w <= uint32(e.m.Layout.Size) {
		f = readRecord(record(e.m.rank(e.mem, int(w-1)), i), e.m.Layout.Size)
	}
	if !e.faults[i].CompareAndSwap(nil, &f) {
		return *e.faults[i].Load(), true
	}
	return f, true
}

// Leave marks this rank as closed for the other ranks, and wakes all ranks, including this one, unless that was done
// before. After it, links return transport.ErrClosed.
func (e *Endpoint) Leave() {
	e.mu.Lock()
	first := !e.closed.Swap(true)
	e.mu.Unlock()
	if !first {
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
	storeWord(e.m.rank(e.mem, e.rank), offClosed, 1)
	e.ringAll()
}

// Closed reports whether Leave was called.
func (e *Endpoint) Closed() bool { return e.closed.Load() }

func (e *Endpoint) ringAll() {
	for r := range e.bells {
		e.bells[r].Ring()
	}
}
