package segment

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

// board is one rank's view of the part of the segment in which every rank publishes its calls, its fault and its end.
type board struct {
	m     *Map
	mem   []byte
	rank  int
	bells []BellWord

	faults [elections]atomic.Pointer[transport.Fault] // the elected ones, once read
	closed atomic.Bool
	news   news

	electing sync.Mutex      // serializes elect and close
	written  [elections]bool // this rank's own records
}

// news is another source of faults than Abort.
type news struct {
	count *uint32 // nil: there is none
	seen  atomic.Uint32
	lost  func() (transport.Fault, bool)
}

// open prepares the board in mem.
func (b *board) open(m *Map, mem []byte, rank int, wake func(r int)) {
	b.m, b.mem, b.rank = m, mem, rank
	b.bells = make([]BellWord, m.Layout.Size)
	for r := range b.bells {
		b.bells[r] = BellWord{word: word(b.area(r), 0), wake: func() { wake(r) }}
	}
}

// area returns the part of the board to which rank r writes.
func (b *board) area(r int) []byte { return b.m.rank(b.mem, r) }

// BellWord returns the word of rank r's bell.
func (b *board) BellWord(r int) *BellWord { return &b.bells[r] }

// CoreWord returns the word with the number of the core on which rank r runs, plus one; 0: it is not known.
func (b *board) CoreWord(r int) *uint32 { return word(b.area(r), offCore) }

// Enter publishes the call that this rank begins. One goroutine calls it.
func (b *board) Enter(h *call.Header) { publishCall(b.area(b.rank), h) }

// Sends publishes that this rank sends messages.
func (b *board) Sends() { storeWord(b.area(b.rank), offSends, 1) }

// Status returns the latest status that rank r has published; after Leave it may be empty.
func (b *board) Status(r int) transport.Status {
	area := b.area(r)
	closed := loadWord(area, offClosed) != 0 // before the call: a closed rank enters none
	call, _ := readCall(area, 0)
	return transport.Status{Call: call, Closed: closed, Sends: loadWord(area, offSends) != 0}
}

// CallBefore returns the call that rank r published back calls before its latest one.
func (b *board) CallBefore(r, back int) (call.Header, bool) {
	if back < 0 || back > transport.History {
		return call.Header{}, false
	}
	return readCall(b.area(r), uint32(back))
}

// Abort reports f, which becomes the fault of the set unless it has one, and wakes every rank.
func (b *board) Abort(f transport.Fault) { b.elect(f, reported) }

// Decide makes f the fault of these ranks where they are a part of a larger set, which elects: their reports by Abort
// are then only proposals.
func (b *board) Decide(f transport.Fault) { b.elect(f, decided, reported) }

// elect proposes f in elections, and wakes every rank.
func (b *board) elect(f transport.Fault, in ...int) {
	f = f.Fit(b.m.Layout.Size)
	b.electing.Lock()
	for _, i := range in {
		if w := b.electionWord(i); !b.closed.Load() && !b.written[i] && atomic.LoadUint32(w) == 0 {
			writeRecord(record(b.area(b.rank), i), f)
			b.written[i] = true
			atomic.CompareAndSwapUint32(w, 0, uint32(b.rank)+1)
		}
	}
	b.electing.Unlock()
	b.ringAll()
}

func (b *board) electionWord(i int) *uint32 { return word(b.mem, offFault+4*i) }

// SetNews has Aborted look for faults that no rank has reported: when the word count has changed, which is read
// atomically, it calls lost, and reports the fault that this returns, if any. Call SetNews before the Endpoint is used.
func (b *board) SetNews(count *uint32, lost func() (transport.Fault, bool)) {
	b.news.count, b.news.lost = count, lost
}

// Aborted returns the first fault that was reported. Before there is one it costs three loads of lines that are not
// written.
func (b *board) Aborted() (transport.Fault, bool) {
	if k := &b.news; k.count != nil {
		if n := atomic.LoadUint32(k.count); n != k.seen.Load() {
			if f, is := k.lost(); is {
				b.Abort(f)
			}
			k.seen.Store(n)
		}
	}
	return b.elected(reported)
}

// Decided returns the fault that Decide has made the fault of these ranks.
func (b *board) Decided() (transport.Fault, bool) { return b.elected(decided) }

// elected returns the fault that won an election, and keeps it.
func (b *board) elected(i int) (transport.Fault, bool) {
	if f := b.faults[i].Load(); f != nil {
		return *f, true
	}
	w := atomic.LoadUint32(b.electionWord(i))
	if w == 0 {
		return transport.Fault{}, false
	}
	f := transport.Faultf(transport.FaultLink, -1, "fault word holds %d with %d ranks", w, b.m.Layout.Size)
	if w <= uint32(b.m.Layout.Size) {
		f = readRecord(record(b.area(int(w-1)), i), b.m.Layout.Size)
	}
	if !b.faults[i].CompareAndSwap(nil, &f) {
		return *b.faults[i].Load(), true
	}
	return f, true
}

// close marks this rank as closed, and reports whether it was not before.
func (b *board) close() bool {
	b.electing.Lock()
	defer b.electing.Unlock()
	return !b.closed.Swap(true)
}

// ringAll wakes every rank.
func (b *board) ringAll() {
	for r := range b.bells {
		b.bells[r].Ring()
	}
}

// A rank's status begins with the number of publications, on a line; behind it
// lie copies of its latest calls, so that others can look back. Publication k
// is written to copy k modulo their number and then announced by storing k. A
// reader takes a copy that the number allows and looks at the number again: the
// copy is unchanged only if the writer has not begun the publication that uses
// it next. A writer that dies half-way leaves the number, and so the older
// call, in place.
const (
	statusCopyBytes = callWords * 8
	callWords       = 3
	statusCopies    = transport.History + 2 // including the one that is being written
)

func statusCopy(line []byte, k uint32) []byte {
	o := 64 + int(k%statusCopies)*statusCopyBytes
	return line[o : o+statusCopyBytes]
}

// publishCall publishes the call of rank r. One goroutine of that rank calls it.
func publishCall(area []byte, h *call.Header) {
	line := area[offStatus : offStatus+statusBytes]
	k := loadWord(line, 0) + 1
	if k == 0 {
		k = statusCopies * (1 << 20) // a fresh rank has published nothing, and 2^32 calls are not nothing
	}
	writeCall(statusCopy(line, k), h.Words())
	announce(line, k)
}

// readCall returns the call published last in a rank's part of the board, or the one back publications before it; false
// when there is none, or it is overwritten.
func readCall(area []byte, back uint32) (call.Header, bool) {
	line := area[offStatus : offStatus+statusBytes]
	for turn := 1; ; turn++ {
		k := loadWord(line, 0)
		if back >= k {
			return call.Header{}, false
		}
		w := readWords(statusCopy(line, k-back))
		if now := loadWord(line, 0); now-k+back < statusCopies-1 {
			return call.HeaderOf(w), true
		}
		if turn%64 == 0 {
			runtime.Gosched() // the writer publishes faster than we read
		}
	}
}

// A fault is first written to a record of the rank that reports it, whole, and
// then elected by one compare-and-swap of a word behind offFault from 0 to that
// rank + 1. A rank that dies at any moment leaves either no fault or a
// whole one, and only the first is elected.

// record returns the memory to which a rank writes its fault for an election.
func record(area []byte, election int) []byte {
	o := offRecord + election*faultBytes
	return area[o : o+faultBytes]
}

// writeRecord writes f to a record. It is called at most once for each.
func writeRecord(rec []byte, f transport.Fault) {
	binary.NativeEndian.PutUint32(rec[0:], uint32(f.Kind))
	binary.NativeEndian.PutUint32(rec[4:], uint32(int32(f.Rank)))
	binary.NativeEndian.PutUint32(rec[8:], uint32(len(f.Text)))
	copy(rec[12:], f.Text)
}

// readRecord reads the record of the rank elected. It trusts none of its contents.
func readRecord(rec []byte, size int) transport.Fault {
	kind, n := binary.NativeEndian.Uint32(rec[0:]), binary.NativeEndian.Uint32(rec[8:])
	f := transport.Fault{Kind: transport.FaultKind(kind), Rank: int(int32(binary.NativeEndian.Uint32(rec[4:])))}
	if kind > math.MaxUint8 || n > transport.MaxFaultText || !f.Valid(size) {
		return transport.Faultf(transport.FaultLink, -1,
			"fault record of kind %d, of rank %d, with %d bytes of text is not readable", kind, f.Rank, n)
	}
	f.Text = string(rec[12 : 12+n])
	return f
}
