package devices

import (
	"sync/atomic"

	"github.com/treerun/treerun/internal/call"
)

// Streams return before anything has moved, so a rank may be many calls ahead of another one. Each writes its latest
// calls where the other ranks of its host can read them, and compares them now and then with theirs of the same number.
// Between hosts the headers of chunks are compared.

// MaxCalls is the largest number of device calls of a rank that may be under way, and the number of latest calls that
// can be compared: as many as a rank can be ahead.
const MaxCalls = 256

// A call is ringWords words: its number at the end and, while the others are
// written, 0 at the beginning.
const (
	ringWords = 5
	ringBytes = MaxCalls * ringWords * 8
)

// callRing is the latest device calls of one rank, in memory that all ranks of its host share. Only its rank writes;
// any rank may read.
type callRing []atomic.Uint64

func (r callRing) at(seq uint64) []atomic.Uint64 {
	i := seq % MaxCalls * ringWords
	return r[i : i+ringWords]
}

// put notes a call.
func (r callRing) put(h *call.Header) {
	w := r.at(h.Seq)
	w[0].Store(0)
	w[1].Store(h.Count)
	w[2].Store(uint64(h.Kind) | uint64(h.Op)<<8 | uint64(h.DType)<<16)
	w[3].Store(uint64(uint32(h.Root)))
	w[4].Store(h.Seq)
	w[0].Store(h.Seq)
}

// get returns the call with a number, false when it is not there.
func (r callRing) get(seq uint64) (h call.Header, ok bool) {
	w := r.at(seq)
	if w[4].Load() != seq || w[0].Load() != seq {
		return h, false
	}
	kinds := w[2].Load()
	h = call.Header{
		Seq: seq, Count: w[1].Load(), Root: int32(uint32(w[3].Load())),
		Kind: uint8(kinds), Op: uint8(kinds >> 8), DType: uint8(kinds >> 16),
	}
	return h, w[0].Load() == seq && seq != 0
}

// differs compares the calls numbered from to upTo with those of another rank, which notes a call and then
// announces it: latest is the number of the last. It returns the first that is not the same, and
// the number of the first that the other one has still to enter. A call that has a number and was never noted is
// none on devices: other has then nothing but the number.
func (r callRing) differs(theirs callRing, from, upTo uint64, latest func() uint64) (mine, other call.Header,
	differ bool, next uint64) {
	announced := latest() // read first: a call with a number by then is there, unless another call has its place
	from = max(from, upTo-min(upTo, MaxCalls)+1)
	for seq := from; seq <= upTo; seq++ {
		a, ok := r.get(seq)
		b, too := theirs.get(seq)
		switch {
		case ok && too && a != b:
			return a, b, true, seq
		case too:
		case seq > announced:
			return mine, other, false, seq
		case ok && latest()-seq < MaxCalls-1: // else another call has its place
			return a, call.Header{Seq: seq}, true, seq
		}
	}
	return mine, other, false, upTo + 1
}
