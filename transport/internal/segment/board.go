package segment

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unicode/utf8"

	"github.com/treerun/treerun/transport"
)

// A rank's status lies on one line: the number of publications, then two
// copies of the call. Publication k is written to copy k&1 and then announced
// by storing k. A reader takes the copy that the number names and looks at the
// number again: it is unchanged only if the writer has not begun publication
// k+2, the next that touches the copy. A writer that dies half-way leaves the
// number, and so the older call, in place.
const (
	statusCopyBytes = callWords * 8
	callWords       = 3
)

// publishCall publishes the call of rank r. One goroutine of that rank calls it.
func publishCall(board []byte, h *transport.Header) {
	line := board[offStatus : offStatus+statusBytes]
	k := loadWord(line, 0) + 1
	writeCall(line[8+int(k&1)*statusCopyBytes:], encodeCall(h))
	storeWord(line, 0, k)
}

// readCall returns the call published last in a rank's part of the board.
func readCall(board []byte) transport.Header {
	line := board[offStatus : offStatus+statusBytes]
	for turn := 1; ; turn++ {
		k := loadWord(line, 0)
		w := readWords(line[8+int(k&1)*statusCopyBytes:])
		if loadWord(line, 0) == k {
			return decodeCall(w)
		}
		if turn%64 == 0 {
			runtime.Gosched() // the writer publishes faster than we read
		}
	}
}

func encodeCall(h *transport.Header) [callWords]uint64 {
	return [callWords]uint64{h.Seq, h.Count,
		uint64(h.Kind) | uint64(h.Op)<<8 | uint64(h.DType)<<16 | uint64(uint32(h.Root))<<32}
}

func decodeCall(w [callWords]uint64) transport.Header {
	return transport.Header{Seq: w[0], Count: w[1],
		Kind: uint8(w[2]), Op: uint8(w[2] >> 8), DType: uint8(w[2] >> 16), Root: int32(uint32(w[2] >> 32))}
}

// A fault is first written to the record of the rank that reports it, whole,
// and then elected by one compare-and-swap of the word at offFault from 0 to
// that rank + 1. A rank that dies at any moment leaves either no fault or a
// whole one, and only the first is elected.

// writeRecord writes f to a rank's record. It is called at most once per rank.
func writeRecord(board []byte, f transport.Fault) {
	rec := board[offRecord : offRecord+faultBytes]
	text := cutText(f.Text, transport.MaxFaultText)
	binary.NativeEndian.PutUint32(rec[0:], uint32(int32(f.Rank)))
	binary.NativeEndian.PutUint32(rec[4:], uint32(len(text)))
	copy(rec[8:], text)
}

// readRecord reads the record of the rank elected. Nothing in it is trusted.
func readRecord(board []byte, size int) transport.Fault {
	rec := board[offRecord : offRecord+faultBytes]
	r := int(int32(binary.NativeEndian.Uint32(rec[0:])))
	n := binary.NativeEndian.Uint32(rec[4:])
	if r < -1 || r >= size || n > transport.MaxFaultText {
		return transport.Fault{Rank: -1, Text: fmt.Sprintf("fault record of rank %d with %d bytes of text is not readable", r, n)}
	}
	return transport.Fault{Rank: r, Text: string(rec[8 : 8+n])}
}

// cutText cuts s to at most n bytes, between characters.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
