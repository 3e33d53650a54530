package segment

import (
	"encoding/binary"
	"math"
	"runtime"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/transport"
)

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
func publishCall(board []byte, h *call.Header) {
	line := board[offStatus : offStatus+statusBytes]
	k := loadWord(line, 0) + 1
	if k == 0 {
		k = statusCopies * (1 << 20) // a fresh rank has published nothing, and 2^32 calls are not nothing
	}
	writeCall(statusCopy(line, k), h.Words())
	announce(line, k)
}

// readCall returns the call published last in a rank's part of the board, or the one back publications before it; false
// when there is none, or it is overwritten.
func readCall(board []byte, back uint32) (call.Header, bool) {
	line := board[offStatus : offStatus+statusBytes]
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
func record(board []byte, election int) []byte {
	o := offRecord + election*faultBytes
	return board[o : o+faultBytes]
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
