package strict

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// FrameSizes has the kinds of the frames that two processes may send each other, and how many bytes
// the body of each has, at least and at most.
//
// A frame is a head and its body. The head is a number of 8 bytes, the highest first: that one is
// the kind, the others are the length of the body.
type FrameSizes map[byte][2]int

// AppendHead appends the head of a frame with a body of n bytes to b.
func AppendHead(b []byte, kind byte, n int) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(kind)<<56|uint64(n))
}

// ReadHead reads the head of a frame, and checks it. The error is io.EOF, unwrapped, when r ends
// before a frame. After any error r is of no more use.
func ReadHead(r io.Reader, sizes FrameSizes) (kind byte, n int, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	kind, n = head[0], int(binary.BigEndian.Uint64(head[:])&(1<<56-1))
	if size, known := sizes[kind]; !known || n < size[0] || n > size[1] {
		return 0, 0, fmt.Errorf("no frame of kind %d has %d bytes; kinds, and their least and most: %v",
			kind, n, sizes)
	}
	return kind, n, nil
}

// ReadFrame reads a frame, as ReadHead does.
func ReadFrame(r io.Reader, sizes FrameSizes) (kind byte, body []byte, err error) {
	kind, n, err := ReadHead(r, sizes)
	if err == nil {
		body, err = ReadBody(r, n)
	}
	return kind, body, err
}

// ReadBody reads n bytes. Memory grows with what arrives: that for 1 MiB comes first.
func ReadBody(r io.Reader, n int) (b []byte, err error) {
	b = make([]byte, 0, min(n, 1<<20))
	for err == nil && len(b) < n {
		have := len(b)
		b = slices.Grow(b, min(n-have, have))
		b = b[:min(n, cap(b))]
		_, err = io.ReadFull(r, b[have:])
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
