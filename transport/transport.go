// Package transport is not for users: it defines the links over which collectives move their chunks: Sender and
// Receiver windows, the Bell on which a rank sleeps, and the Endpoint that provides them.
//
// It holds interfaces and plain data only. The implementations live in transport/shm (processes of one host, or
// goroutines of one process) and transport/tcp (several hosts, shared memory within each), and the tests of this
// package run one suite over every one of them. Package collective and its internals import transport.
package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/progress"
)

// MaxInline is the largest payload, in bytes, that shares its slot's header cache line. Transports place such payloads
// next to the header so that a small message costs one cache-line transfer.
const MaxInline = 32

// MaxLent is the largest payload that Lend accepts, in bytes.
const MaxLent = 1<<31 - 1

// Sender is the sending end of one FIFO of bounded slots. It is owned by one
// goroutine at a time.
type Sender interface {
	// TryReserve returns the window of the next free slot, cut to n bytes, and true; or false when every slot is taken. n
	// is at most the slot size of the link. Until Commit the call may be repeated and returns the same window. The window
	// is valid until Commit. The error is the link's: its peer is gone, or has written to memory in violation of the
	// protocol.
	TryReserve(n int) ([]byte, bool, error)

	// Commit publishes the reserved window under header h and wakes the
	// receiver if it sleeps. Precondition: TryReserve returned true. The
	// header is copied.
	Commit(h *call.Header)

	// Wake wakes the receiver, if it sleeps, for windows that were shared or lent before the latest Commit or Release of
	// this goroutine.
	Wake()

	// Reserved returns the window that TryReserve returned, until Commit.
	Reserved() []byte

	// Share publishes, under header h, the window that lender has reserved and not yet committed, in place of a window of
	// its own, so that one payload goes to several ranks: written once, read by each where it lies, or copied where lender
	// is a link of another kind. lender is another Sender of the same Endpoint, and keeps its slot until all receivers
	// have released it. Preconditions: TryReserve(0) returned true here, and TryReserve(n) on lender; its window is
	// already filled. It neither wakes nor fences: with several links to serve, the last one gets a Commit, and the others
	// a Wake after it.
	Share(h *call.Header, lender Sender)

	// Lend publishes, under header h, window itself, in place of a window of the link's. It must not change, and the
	// caller has to keep it reachable, until Returned. Preconditions, without which it panics: TryReserve(0) returned
	// true; window lies in memory that Endpoint.Alloc returned and has at most MaxLent bytes, or lies anywhere, if
	// Endpoint.Reaches the receiver, and has at most half of that, or if LendsAny, and is no longer than a slot. As for
	// Share, a Commit or Release follows, or Endpoint.Fence, and then a Wake. helps announces that this rank will call
	// Help(true) for it.
	Lend(h *call.Header, window []byte, helps bool)

	// Returned reports whether the receiver has released all windows that were lent to it, or will read no more of them;
	// in that case the next TryReserve returns an error.
	Returned() bool

	// LendsAny reports whether any memory may be lent here, even where Endpoint.Reaches reports false: the link passes the
	// bytes on to the kernel, and another rank never reads them in place.
	LendsAny() bool

	// Help sends lent windows that are not returned through the slots, if the receiver cannot read them, and reports
	// whether there was anything to send. A rank that has lent calls it in every turn of a wait, whatever it waits for.
	// idle means that the rank has a core of its own and is otherwise idle: then Help also copies a piece of a window that
	// the receiver can read to the receiver's target.
	Help(idle bool) (bool, error)
}

// Receiver is the receiving end of one FIFO. It is owned by one goroutine at a
// time.
type Receiver interface {
	// TryPeek returns the oldest unread payload and true, or false when there is none. The header is copied to h. Repeated
	// calls return the same window. The window is valid until Release and must not be written. A payload in the sender's
	// own memory is copied to the slot first; of one that is longer than a slot only the header is returned.
	TryPeek(h *call.Header) ([]byte, bool, error)

	// Release gives the slot back to the sender and wakes it if it sleeps. A slot whose payload has at most MaxInline
	// bytes may be given back later, with others that are up to half of all.
	// Precondition: TryPeek returned true.
	Release()

	// Drop is Release without the fence and the wake-up: with several links to
	// serve, the last one gets a Release, and the others a Wake after it.
	Drop()
	Wake()

	// CancelReceive ends the time in which the link may write to memory of the caller between two calls, as after
	// PostReceive, or after a TryPeekInto that has returned false: when it returns, the link writes to none any more. A
	// call that fails ends with it. There is one exception: it waits only a second for a sender in another process that is
	// stopped in the middle of a copy; when that sender continues it may still write the rest of that piece.
	CancelReceive()
}

// ReceivePoster is a Receiver that can put payloads in their final places while they arrive.
type ReceivePoster interface {
	Receiver

	// PostReceive sets the places of the next payloads: the first chunk bytes of into are for the oldest one that is not
	// released, the next for the one after it, and so on; the last may be shorter. A payload of exactly that length of
	// which no byte has arrived yet may be put there, and then TryPeek returns it there. The link may write to into until
	// all of them are released, or until CancelReceive, which keeps the received part of a payload. Preconditions: chunk
	// is positive, and the payloads of an earlier PostReceive are released, or their places are posted again unchanged.
	PostReceive(into []byte, chunk int)
}

// LentReceiver is a Receiver of payloads that lie in the sender's own memory.
type LentReceiver interface {
	Receiver

	// TryHead is TryPeek for the header and the length alone.
	TryHead(h *call.Header) (n int, ok bool, err error)

	// TryPeekInto is TryPeek, except that a payload of len(into) bytes in the sender's own memory is copied to into, and
	// into is returned. When it returns false the copy may have begun: the sender may write to into until a later call
	// returns the payload, or until CancelReceive. The into of the first call is the one that is filled and returned,
	// whatever the later calls have. A payload that has begun to arrive must not be released.
	TryPeekInto(h *call.Header, into []byte) ([]byte, bool, error)

	// TryRead copies len(into) bytes of the oldest unread payload, from byte at on, to into.
	TryRead(into []byte, at int) (bool, error)
}

// Bell is the place where one rank sleeps until one of its links has something new.
type Bell = progress.Bell

// Link names one FIFO: chunks of one lane from rank Src to rank Dst.
type Link struct {
	Lane, Src, Dst int
}

// Layout describes the FIFOs of an Endpoint set, of which there is one in each lane from every member to every other.
// All ranks of the set must use the same Layout.
type Layout struct {
	Size      int   // ranks
	Members   []int // ranks in the set, rising, if it is a part of all ranks; nil: all
	Slots     int   // slots per FIFO, at least 2, a power of two
	SlotBytes int   // payload bytes per slot, a multiple of 64
	HeapBytes int   // per rank: limit of Alloc, half of it at once; a multiple of 2 MiB, or 0
}

// Limits of a Layout, checked before any of it is used as a size.
const (
	MaxRanks     = 1 << 16
	MaxLanes     = 1 << 13 // of every two ranks
	MaxSlots     = 1 << 10
	MaxSlotBytes = 64 << 20
	MaxHeapBytes = 1 << 42
	HeapGrain    = 2 << 20 // of HeapBytes
)

// Validate reports the first invalid field.
func (l *Layout) Validate() error {
	switch {
	case l.Size < 1 || l.Size > MaxRanks:
		return fmt.Errorf("transport: layout of %d ranks, want 1..%d", l.Size, MaxRanks)
	case l.Slots < 2 || l.Slots > MaxSlots || l.Slots&(l.Slots-1) != 0:
		return fmt.Errorf("transport: %d slots per link, want a power of two from 2 to %d", l.Slots, MaxSlots)
	case l.SlotBytes < 64 || l.SlotBytes > MaxSlotBytes || l.SlotBytes%64 != 0:
		return fmt.Errorf("transport: slots of %d bytes, want a multiple of 64 up to %d", l.SlotBytes, MaxSlotBytes)
	case l.HeapBytes < 0 || l.HeapBytes > MaxHeapBytes || l.HeapBytes%HeapGrain != 0:
		return fmt.Errorf("transport: heap of %d bytes per rank, want a multiple of %d up to %d", l.HeapBytes, HeapGrain,
			MaxHeapBytes)
	}
	for i, r := range l.Members {
		if r < 0 || r >= l.Size || i > 0 && r <= l.Members[i-1] {
			return fmt.Errorf("transport: members %v of %d ranks, want rising numbers below that", l.Members, l.Size)
		}
	}
	if l.Members != nil && len(l.Members) == 0 {
		return errors.New("transport: a set without members")
	}
	return nil
}

// MemberCount returns the number of ranks in the set.
func (l *Layout) MemberCount() int {
	if l.Members == nil {
		return l.Size
	}
	return len(l.Members)
}

// Member returns the i-th rank of the set.
func (l *Layout) Member(i int) int {
	if l.Members == nil {
		return i
	}
	return l.Members[i]
}

// MemberIndex returns the index of rank r among the members, -1 when it is none.
func (l *Layout) MemberIndex(r int) int {
	if l.Members == nil {
		return r
	}
	if i, found := slices.BinarySearch(l.Members, r); found {
		return i
	}
	return -1
}

// Has reports whether the layout has link k.
func (l *Layout) Has(k Link) bool {
	in := func(r int) bool { return r >= 0 && r < l.Size && l.MemberIndex(r) >= 0 }
	return in(k.Src) && in(k.Dst) && k.Src != k.Dst && k.Lane >= 0 && k.Lane < MaxLanes
}

// Digest returns a digest of the layout and of the version of the package that uses it.
func (l *Layout) Digest(version int) [sha256.Size]byte {
	sum := sha256.New()
	var b [8]byte
	add := func(v int) {
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		sum.Write(b[:])
	}
	for _, v := range []int{version, l.Size, l.Slots, l.SlotBytes, l.HeapBytes, len(l.Members)} {
		add(v)
	}
	for _, r := range l.Members {
		add(r)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// Status is the published state of a rank: its current call and more, so that a waiting rank can see the reason for its
// wait.
type Status struct {
	Call   call.Header // the latest call entered; Seq 0 before the first
	Closed bool        // the rank has closed its endpoint
	Sends  bool        // the rank has called Sends, or it is not known whether it has

	// Unknown means that no status of the rank arrives here, as it has no link with this one and shares no memory with it.
	Unknown bool

	// Ended is the reason why the links with the rank have ended without its Close; nil: they have not, or cannot end. It
	// is a hint, and no fault: other sources report which rank was lost.
	Ended error
}

// History is the number of calls before the latest one of a rank that can be looked up.
const History = 14

// Endpoint is one rank's end of a set of links. The methods may be called concurrently unless their comments exclude
// that; the Senders and Receivers that they return have one owner each.
type Endpoint interface {
	// Sender and Receiver return the rank's end of a link of the Layout; the same end each time. A link takes memory from
	// the first call for one of its ends on. The error is ErrNoLink when the Layout does not have it.
	Sender(lane, dst int) (Sender, error)
	Receiver(lane, src int) (Receiver, error)

	// Bell returns this rank's own bell.
	Bell() Bell

	// Fence orders earlier posts before later loads.
	Fence()

	// Reaches reports whether this rank and another rank r read each other's own memory, so that any memory may be lent
	// between them, and if not, the reason; "" where it is obvious. It is the same on both, and on all ranks of a host.
	// Receivers from such a rank are a LentReceiver.
	Reaches(r int) (ok bool, why string)

	// Enter publishes the call that this rank begins. One goroutine, the owner
	// of the communicator, calls it.
	Enter(h *call.Header)

	// FlushStatus sends the call that Enter published to the other ranks now, where they would receive it only after a
	// while.
	FlushStatus()

	// Sends publishes that this rank sends messages in addition to its calls.
	Sends()

	// Status returns the latest status that rank r has published. While r enters a call it is either the older or the
	// newer one, and never a mixture.
	Status(r int) Status

	// CallBefore returns the call that rank r published back calls before its
	// latest one; false when there was none, or it is more than History calls
	// ago.
	CallBefore(r, back int) (call.Header, bool)

	// Abort publishes f as the fault of the whole set, unless one is there
	// already, and wakes every rank.
	Abort(f Fault)

	// Aborted returns the fault of the set, if any. It is cheap enough for
	// every turn of a waiting loop.
	Aborted() (Fault, bool)

	// Alloc returns n bytes of zero memory that every rank of this host can read where it lies, from a 64-byte boundary
	// on. The memory lives until Free or the end of the process; it stays usable after Close.
	Alloc(n int) ([]byte, error)

	// Free releases memory that Alloc returned. It must not be used any more, by any rank.
	Free(b []byte) error

	// Shared reports whether b, which is not empty, lies in memory that Alloc returned.
	Shared(b []byte) bool

	// Scratch is Alloc of memory that this rank may use only until Close, and only while the Endpoint is reachable: then
	// all of it is released. Free releases it earlier.
	Scratch(n int) ([]byte, error)

	// Offset returns the offset of b, which Alloc has returned here, in bytes from the beginning of the memory that this
	// rank can allocate; false for other memory.
	Offset(b []byte) (at int, ok bool)

	// View returns the n bytes at that offset of the memory that rank r of this host can allocate, for reading and
	// writing: it is the place of data that the ranks of a host share in addition to their links. Only the blocks that r
	// has allocated have memory: the rest must not be touched. They may be used as long as r keeps its block and no
	// endpoint is closed.
	View(r, at, n int) ([]byte, error)

	// MaxPayload returns the slot size in bytes.
	MaxPayload() int

	// Close marks this rank as closed for the other ranks, and releases memory and descriptors. Windows must not be used
	// after it. Idempotent.
	Close() error
}
