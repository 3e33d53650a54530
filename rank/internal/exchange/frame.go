package exchange

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strings"

	"github.com/treerun/treerun/internal/strict"
)

// A data connection carries frames of package strict, whose bodies begin with 13 bytes:
//
//	step 1 | rank 4 | number 8
//
// A blobs frame is one step of an AllGather: it ends with the lengths of blobs, 4
// bytes each, and is followed by the blobs. The other frames are notices about a rank, with a text.
const (
	blobsFrame     byte = 1 // step of AllGather number
	leftFrame      byte = 2 // rank has closed after completing number AllGathers
	failedFrame    byte = 3 // rank has failed; the text is the description
	brokenFrame    byte = 4 // AllGather number cannot complete, because of rank; the text is the cause
	heartbeatFrame byte = 5 // the sender lives; no text
	stalledFrame   byte = 6 // brokenFrame whose cause is the stall timeout
	pairsFrame     byte = 7 // the peers that rank cannot connect to; the text is a netconn.Report
)

const (
	bodyHead = 1 + 4 + 8
	maxText  = 1024     // bytes of a notice's text
	maxPairs = 64 << 10 // of that of a pairsFrame
)

// MaxBlob is the largest blob that a rank may give to AllGather, in bytes.
const MaxBlob = 64 << 20

// frame is one message of a data connection, decoded.
type frame struct {
	kind   byte
	step   int
	rank   int // the subject of a notice; the sender of blobs
	number uint64
	blobs  [][]byte
	text   string
	cause  error // the error whose text a notice of this rank carries
}

// notice returns a frame about a rank.
func notice(kind byte, rank int, number uint64, why error) *frame {
	text := ""
	if why != nil {
		text = why.Error()
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "?")
	return &frame{kind: kind, rank: rank, number: number, text: text, cause: why}
}

// err returns the text of a notice, as an error.
func (f *frame) err() error {
	switch {
	case f.cause != nil:
		return f.cause
	case f.kind == failedFrame:
		return reported{f.text, ErrFailed}
	case f.kind == stalledFrame:
		return reported{f.text, ErrStalled}
	}
	return reported{f.text, nil}
}

// blobsIn returns the number of blobs that a step of an AllGather of n ranks moves.
func blobsIn(step, n int) int { return min(1<<step, n-1<<step) }

// stepsOf returns the number of steps of an AllGather of n ranks: ceil(log2 n).
func stepsOf(n int) int { return bits.Len(uint(n - 1)) }

// sizes are the valid sizes of frame bodies.
var sizes = strict.FrameSizes{
	blobsFrame: {bodyHead, bodyHead + 4<<15}, // of half of the largest number of ranks
	leftFrame:  notices, failedFrame: notices, brokenFrame: notices, stalledFrame: notices,
	heartbeatFrame: {bodyHead, bodyHead}, pairsFrame: {bodyHead, bodyHead + maxPairs},
}

var notices = [2]int{bodyHead, bodyHead + maxText}

// encode returns the frame as slices to be written one after the other. The
// blobs are not copied.
func (f *frame) encode() [][]byte {
	b := strict.AppendHead(nil, f.kind, bodyHead+4*len(f.blobs)+len(f.text))
	b = append(b, byte(f.step))
	b = binary.BigEndian.AppendUint32(b, uint32(f.rank))
	b = binary.BigEndian.AppendUint64(b, f.number)
	for _, blob := range f.blobs {
		b = binary.BigEndian.AppendUint32(b, uint32(len(blob)))
	}
	return append([][]byte{append(b, f.text...)}, f.blobs...)
}

// readFrame reads one frame of a job of size ranks, as strict.ReadFrame does.
func readFrame(r io.Reader, size int) (*frame, error) {
	kind, b, err := strict.ReadFrame(r, sizes)
	if err != nil {
		return nil, err
	}
	f := &frame{kind: kind, step: int(b[0]), rank: int(binary.BigEndian.Uint32(b[1:])),
		number: binary.BigEndian.Uint64(b[5:])}
	b = b[bodyHead:]
	switch {
	case f.rank >= size:
		return nil, fmt.Errorf("frame about rank %d of %d", f.rank, size)
	case kind == blobsFrame:
		return f, f.readBlobs(r, b, size)
	case f.step != 0 || kind == heartbeatFrame && f.number != 0:
		return nil, fmt.Errorf("notice of kind %d with step %d and number %d", kind, f.step, f.number)
	}
	f.text = string(b)
	return f, nil
}

// readBlobs reads the blobs that follow a frame with their lengths.
func (f *frame) readBlobs(r io.Reader, lengths []byte, size int) error {
	if f.step >= stepsOf(size) || len(lengths) != 4*blobsIn(f.step, size) {
		return fmt.Errorf("step %d with %d blobs does not fit an AllGather of %d ranks", f.step, len(lengths)/4, size)
	}
	all := 0
	for at := 0; at < len(lengths); at += 4 {
		n := binary.BigEndian.Uint32(lengths[at:])
		if n > MaxBlob+1 {
			return fmt.Errorf("blob of %d bytes, at most %d are possible", n, MaxBlob+1)
		}
		all += int(n)
	}
	b, err := strict.ReadBody(r, all)
	if err != nil {
		return err
	}
	f.blobs = make([][]byte, 0, len(lengths)/4)
	for ; len(lengths) > 0; lengths = lengths[4:] {
		n := binary.BigEndian.Uint32(lengths)
		f.blobs = append(f.blobs, b[:n:n])
		b = b[n:]
	}
	return nil
}
