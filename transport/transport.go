// Package transport is not for users: it defines the links over which collectives move their
// chunks: Sender and Receiver windows, the Bell a rank sleeps on, and the Endpoint that hands
// them out.
//
// It holds interfaces and plain data only. The implementations live in
// transport/shm (processes of one host, or goroutines of one process) and transport/tcp
// (several hosts, shared memory within each), and the tests of this
// package run one suite over every one of them. Package collective and its internals import
// transport.
package transport

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/treerun/treerun/internal/progress"
)

// MaxInline is the largest payload, in bytes, that shares its slot's header
// cache line. Transports place such payloads beside the header so that a small
// message costs one cache-line transfer.
const MaxInline = 32

// Header names the collective call to which a slot's payload belongs. It
// travels in front of every chunk, so that ranks which call different
// collectives find out instead of mixing their data. All fields are compared.
type Header struct {
	Seq   uint64 // number of the call on its communicator, from 1
	Count uint64 // elements of the whole call
	Kind  uint8  // which collective (plan.Kind)
	Op    uint8  // which reduction (kernel.Op), 0 where there is none
	DType uint8  // element type (kernel.DType)
	Chain uint8  // digest of all calls up to this one
	Root  int32  // -1 where the collective has no root
}

// Words returns what HeaderOf reads.
func (h *Header) Words() [3]uint64 {
	return [3]uint64{h.Seq, h.Count,
		uint64(h.Kind) | uint64(h.Op)<<8 | uint64(h.DType)<<16 | uint64(h.Chain)<<24 | uint64(uint32(h.Root))<<32}
}

// HeaderOf returns the Header of these Words.
func HeaderOf(w [3]uint64) Header {
	return Header{Seq: w[0], Count: w[1],
		Kind: uint8(w[2]), Op: uint8(w[2] >> 8), DType: uint8(w[2] >> 16), Chain: uint8(w[2] >> 24),
		Root: int32(uint32(w[2] >> 32))}
}

// Sender is the sending end of one FIFO of bounded slots. It is owned by one
// goroutine at a time.
type Sender interface {
	// TryReserve returns the window of the next free slot, cut to n bytes, and
	// true; or false when every slot is taken. n is at most the slot size of
	// the link. Until Commit the call may be repeated and returns the same
	// window. The window is valid until Commit. The error is the link's: its
	// peer is gone, or the memory it wrote is not what the protocol allows.
	TryReserve(n int) ([]byte, bool, error)

	// Commit publishes the reserved window under header h and wakes the
	// receiver if it sleeps. Precondition: TryReserve returned true. The
	// header is copied.
	Commit(h *Header)

	// Wake wakes the receiver, if it sleeps, for what was shared or lent before the
	// latest Commit or Release of this goroutine.
	Wake()

	// Reserved returns the window that TryReserve gave out, until Commit.
	Reserved() []byte

	// Share publishes, under header h, the window that lender has reserved and
	// not yet committed, in place of a window of its own, so that one payload
	// goes to several ranks: written once, read by each where it lies, or copied
	// where lender is a link of another kind. lender
	// is another Sender of the same Endpoint, and keeps its slot until all
	// receivers have released it. Preconditions: TryReserve(0) returned true
	// here, and TryReserve(n) on lender; its window is already filled. It
	// neither wakes nor fences: with several links to serve, the last one gets
	// a Commit, and the others a Wake after it.
	Share(h *Header, lender Sender)

	// Lend publishes, under header h, window itself, which lies in memory that
	// Endpoint.Alloc gave out, or anywhere if Endpoint.Reaches the receiver, in place of a
	// window of the link's. It may be longer than a slot. It must not change, and
	// the caller has to keep it reachable, until Returned. Precondition:
	// TryReserve(0) returned true. As for Share, a Commit or Release follows,
	// or Endpoint.Fence, and then a Wake. helps says that this rank will
	// call Help(true) for it.
	Lend(h *Header, window []byte, helps bool)

	// Returned reports whether the receiver has released all that was lent to
	// it, or will read no more of it, which TryReserve's error then says.
	Returned() bool

	// LendsAny reports whether any memory may be lent here, even where
	// Endpoint.Reaches says no: what is sent goes on from there to the kernel, and
	// does not stay where another rank has to reach it.
	LendsAny() bool

	// Help sends what was lent and is not returned through the slots, if the receiver cannot read it, and
	// reports whether there was something to send. A rank that has lent calls it in every turn of a wait, whatever
	// it waits for. idle says that it has a core of its own and nothing else to do: then Help
	// copies a piece of what the receiver can read, too, to where the receiver wants it.
	Help(idle bool) (bool, error)
}

// Receiver is the receiving end of one FIFO. It is owned by one goroutine at a
// time.
type Receiver interface {
	// TryPeek returns the oldest unread payload and true, or false when there
	// is none. The header is copied to h. Repeated calls return the same
	// window. The window is valid until Release and must not be written.
	// A payload in the sender's own memory is copied to the slot's first; of
	// one that is longer than a slot nothing is returned but its header.
	TryPeek(h *Header) ([]byte, bool, error)

	// Release gives the slot back to the sender and wakes it if it sleeps.
	// Precondition: TryPeek returned true.
	Release()

	// Drop is Release without the fence and the wake-up: with several links to
	// serve, the last one gets a Release, and the others a Wake after it.
	Drop()
	Wake()

	// CancelReceive ends that memory of the caller may be written between two calls, as
	// after PostReceive, or after a TryPeekInto that has returned false: when it returns,
	// none is written any more. A call that fails ends with it. One case is left: a
	// sender in another process that is stopped in the middle of a copy is waited for
	// for a second; when it goes on it may still write what is left of that piece.
	CancelReceive()
}

// ReceivePoster is a Receiver that can put payloads where they belong while they come.
type ReceivePoster interface {
	Receiver

	// PostReceive says where the next payloads belong: the first chunk bytes of into
	// are for the oldest one that is not released, the next for the one after it,
	// and so on; the last may be shorter. One of exactly that length of which
	// nothing has come yet may be put there, and is where TryPeek returns it. into
	// may be written until all of them are released, or until CancelReceive. What has
	// come in parts is kept then.
	// Preconditions: chunk is positive, and what was posted before is released, or
	// is posted again where it was.
	PostReceive(into []byte, chunk int)
}

// LentReceiver is a Receiver of payloads that lie in the sender's own memory.
type LentReceiver interface {
	Receiver

	// TryHead is TryPeek for the header and the length alone.
	TryHead(h *Header) (n int, ok bool, err error)

	// TryPeekInto is TryPeek, except that a payload of len(into) bytes in the
	// sender's own memory is copied to into, and into is what is returned. When it
	// returns false the copy may have begun: the sender may write to into until a later
	// call returns the payload, or until CancelReceive. The into of the first call stays
	// the one that is filled and returned, whatever the later calls have. A payload that
	// has begun to come must not be released.
	TryPeekInto(h *Header, into []byte) ([]byte, bool, error)

	// TryRead copies len(into) bytes of the oldest unread payload, from byte at
	// on, to into.
	TryRead(into []byte, at int) (bool, error)
}

// Bell is where one rank sleeps until one of its links has something new.
type Bell = progress.Bell

// Link names one FIFO: chunks of one lane from rank Src to rank Dst.
type Link struct {
	Lane, Src, Dst int
}

// Layout says how large the FIFOs of an Endpoint set are, of which there is one in each lane from
// every member to every other. All ranks of the set must use the same Layout.
type Layout struct {
	Size      int   // ranks
	Members   []int // those that are in the set, rising, when it is a part of the ranks; nil: all
	Slots     int   // slots per FIFO, at least 2, a power of two
	SlotBytes int   // payload bytes per slot, a multiple of 64
	HeapBytes int   // per rank: what Alloc may give out, half of it at once; a multiple of 2 MiB, or 0
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

// Validate reports the first field that cannot be used.
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

// MemberCount returns how many ranks are in the set.
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

// MemberIndex returns which member rank r is, -1 when it is none.
func (l *Layout) MemberIndex(r int) int {
	if l.Members == nil {
		return r
	}
	if i, found := slices.BinarySearch(l.Members, r); found {
		return i
	}
	return -1
}

// Has reports whether there is a link.
func (l *Layout) Has(k Link) bool {
	in := func(r int) bool { return r >= 0 && r < l.Size && l.MemberIndex(r) >= 0 }
	return in(k.Src) && in(k.Dst) && k.Src != k.Dst && k.Lane >= 0 && k.Lane < MaxLanes
}

// Digest returns a digest of the layout and of a version of what uses it.
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

// Status is what a rank tells the other ranks of its Endpoint set about the
// call it is in, so that a rank that waits can see why.
type Status struct {
	Call   Header // the latest call entered; Seq 0 before the first
	Closed bool   // the rank has closed its endpoint
	Sends  bool   // the rank has called Sends, or it is not known whether it has

	// Unknown: no news of the rank comes here, as it has no link with this one
	// and shares no memory with it.
	Unknown bool

	// Ended is why the links with the rank have ended without its Close; nil: they have not, or
	// nothing of theirs could. Who was lost is for others to say: it is a hint, and no fault.
	Ended error
}

// History is how many calls before the latest one of a rank can be looked up.
const History = 14

// Endpoint is one rank's end of a set of links. The methods may be called
// concurrently unless they say otherwise; the Senders and Receivers they
// return have one owner each.
type Endpoint interface {
	// Sender and Receiver return the rank's end of a link of the Layout; the
	// same end each time. A link takes memory once an end of it has been asked for.
	// ErrNoLink when the Layout does not have it.
	Sender(lane, dst int) (Sender, error)
	Receiver(lane, src int) (Receiver, error)

	// Bell is this rank's own bell.
	Bell() Bell

	// Fence orders what was posted before what is loaded afterwards.
	Fence()

	// Reaches reports whether this rank and rank r, another one, read each other's own memory, so
	// that any memory may be lent between them, and if not, why; "" where nobody would expect it. It
	// is the same on both, and on all ranks of a host. Receivers from such a rank are a LentReceiver.
	Reaches(r int) (ok bool, why string)

	// Enter publishes the call that this rank begins. One goroutine, the owner
	// of the communicator, calls it.
	Enter(h *Header)

	// FlushStatus has the other ranks hear now of what Enter published, where they hear
	// of it only after a while.
	FlushStatus()

	// Sends publishes that this rank sends messages beside its calls.
	Sends()

	// Status returns what rank r published last. It may be torn between two
	// calls only in that it is either the older or the newer one.
	Status(r int) Status

	// CallBefore returns the call that rank r published back calls before its
	// latest one; false when there was none, or it is more than History calls
	// ago.
	CallBefore(r, back int) (Header, bool)

	// Abort publishes f as the fault of the whole set, unless one is there
	// already, and wakes every rank.
	Abort(f Fault)

	// Aborted returns the fault of the set, if any. It is cheap enough for
	// every turn of a waiting loop.
	Aborted() (Fault, bool)

	// Alloc returns n bytes of zero memory that every rank of this host can read
	// where it lies, from a 64-byte boundary on. The memory lives until Free or
	// the end of the process; it stays usable after Close.
	Alloc(n int) ([]byte, error)

	// Free gives back what Alloc returned. Nobody may use it any more.
	Free(b []byte) error

	// Shared reports whether b, which is not empty, lies in memory that Alloc
	// gave out.
	Shared(b []byte) bool

	// Scratch is Alloc of memory that may be used here only until Close, and as long as
	// the Endpoint is reachable: then this rank keeps nothing of it. Free gives it back
	// earlier.
	Scratch(n int) ([]byte, error)

	// Offset returns where b, which Alloc has given out here, lies, in bytes from
	// the beginning of what this rank may give out; false for other memory.
	Offset(b []byte) (at int, ok bool)

	// View returns the n bytes at that offset of what rank r of this host may give out, to
	// read and to write: what the ranks of a host agree on beside their links lies there. Only
	// the blocks that r has given out have memory: the rest must not be touched.
	// They may be used as long as r keeps its block and no endpoint is closed.
	View(r, at, n int) ([]byte, error)

	// MaxPayload is the slot size in bytes.
	MaxPayload() int

	// Close tells the other ranks that this one has left, and gives memory and
	// descriptors back. Windows must not be used after it. Idempotent.
	Close() error
}
