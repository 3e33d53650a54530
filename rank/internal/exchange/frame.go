package exchange

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// A data connection carries frames. A frame is a header of 16 bytes and what
// it announces:
//
//	kind 1 | step 1 | count 2 | rank 4 | number 8
//
// A blobs frame is one step of an AllGather: count lengths of 4 bytes, then
// the blobs. The other frames are notices about a rank, and count is the
// length of their text.
type frameKind uint8

const (
	blobsFrame     frameKind = 1 // step of AllGather number
	leftFrame      frameKind = 2 // rank has closed after completing number AllGathers
	failedFrame    frameKind = 3 // rank has failed; the text says how
	brokenFrame    frameKind = 4 // AllGather number cannot complete, because of rank; the text says why
	heartbeatFrame frameKind = 5 // the sender lives; no text
	stalledFrame   frameKind = 6 // brokenFrame where the stall timeout is why
)

const (
	frameHeader = 16
	maxText     = 1024 // bytes of a notice's text
)

// MaxBlob is the largest blob that a rank may give to AllGather, in bytes.
const MaxBlob = 64 << 20

// frame is one message of a data connection, decoded.
type frame struct {
	kind   frameKind
	step   int
	rank   int // whom a notice is about; the sender of blobs
	number uint64
	blobs  [][]byte
	text   string
	cause  error // what the text of a notice of this rank's own says
}

// notice returns a frame about a rank.
func notice(kind frameKind, rank int, number uint64, why error) *frame {
	text := ""
	if why != nil {
		text = why.Error()
	}
	return &frame{kind: kind, rank: rank, number: number, text: text[:min(len(text), maxText)], cause: why}
}

// why returns what a notice says, as an error.
func (f *frame) why() error {
	switch {
	case f.cause != nil:
		return f.cause
	case f.kind == failedFrame:
		return told{f.text, ErrFailed}
	case f.kind == stalledFrame:
		return told{f.text, ErrStalled}
	}
	return told{f.text, nil}
}

// blobsIn says how many blobs step of an AllGather of n ranks moves.
func blobsIn(step, n int) int { return min(1<<step, n-1<<step) }

// stepsOf says how many steps an AllGather of n ranks has: ceil(log2 n).
func stepsOf(n int) int {
	steps := 0
	for 1<<steps < n {
		steps++
	}
	return steps
}

// encode returns the frame as slices to be written one after the other. The
// blobs are not copied.
func (f *frame) encode() [][]byte {
	count := len(f.text)
	if f.kind == blobsFrame {
		count = len(f.blobs)
	}
	b := make([]byte, 0, frameHeader+4*len(f.blobs)+len(f.text))
	b = append(b, byte(f.kind), byte(f.step))
	b = binary.BigEndian.AppendUint16(b, uint16(count))
	b = binary.BigEndian.AppendUint32(b, uint32(f.rank))
	b = binary.BigEndian.AppendUint64(b, f.number)
	for _, blob := range f.blobs {
		b = binary.BigEndian.AppendUint32(b, uint32(len(blob)))
	}
	b = append(b, f.text...)
	return append([][]byte{b}, f.blobs...)
}

// readFrame reads one frame of a job of size ranks. Sizes are checked before
// memory is allocated, and memory for large blobs grows with what arrives. The
// error is io.EOF, unwrapped, when r ends before a frame.
func readFrame(r io.Reader, size int) (*frame, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	f := &frame{
		kind:   frameKind(head[0]),
		step:   int(head[1]),
		rank:   int(binary.BigEndian.Uint32(head[4:])),
		number: binary.BigEndian.Uint64(head[8:]),
	}
	count := int(binary.BigEndian.Uint16(head[2:]))
	if f.rank >= size {
		return nil, fmt.Errorf("frame about rank %d of %d", f.rank, size)
	}
	switch f.kind {
	case blobsFrame:
		return f, f.readBlobs(r, count, size)
	case leftFrame, failedFrame, brokenFrame, stalledFrame:
		return f, f.readText(r, count)
	case heartbeatFrame:
		if count != 0 || f.step != 0 || f.number != 0 {
			return nil, fmt.Errorf("beat with count %d, step %d and number %d", count, f.step, f.number)
		}
		return f, nil
	}
	return nil, fmt.Errorf("unknown frame kind %d", f.kind)
}

func (f *frame) readText(r io.Reader, n int) error {
	if n > maxText || f.step != 0 {
		return fmt.Errorf("notice with a text of %d bytes and step %d, at most %d and 0 are possible", n, f.step, maxText)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return unexpected(err)
	}
	f.text = string(text)
	return nil
}

func (f *frame) readBlobs(r io.Reader, count, size int) error {
	if f.step >= stepsOf(size) || count != blobsIn(f.step, size) {
		return fmt.Errorf("step %d with %d blobs does not fit an AllGather of %d ranks", f.step, count, size)
	}
	lengths := make([]byte, 4*count)
	if _, err := io.ReadFull(r, lengths); err != nil {
		return unexpected(err)
	}
	for i := range count {
		if n := binary.BigEndian.Uint32(lengths[4*i:]); n > MaxBlob+1 { // with the kind of gatherAs
			return fmt.Errorf("blob of %d bytes, at most %d are possible", n, MaxBlob+1)
		}
	}
	f.blobs = make([][]byte, count)
	for i := range f.blobs {
		var err error
		if f.blobs[i], err = readBlob(r, int(binary.BigEndian.Uint32(lengths[4*i:]))); err != nil {
			return unexpected(err)
		}
	}
	return nil
}

// readBlob reads n bytes, and never holds more than twice what has arrived
// plus 1 MiB.
func readBlob(r io.Reader, n int) ([]byte, error) {
	blob := make([]byte, min(n, 1<<20))
	for have := 0; ; {
		if _, err := io.ReadFull(r, blob[have:]); err != nil {
			return nil, err
		}
		if have = len(blob); have == n {
			return blob, nil
		}
		more := min(n-have, have)
		blob = slices.Grow(blob, more)[:have+more]
	}
}

// unexpected makes the end of the input inside a frame the error that it is.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
