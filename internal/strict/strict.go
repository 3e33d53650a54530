// Package strict decodes data of other processes and users: messages in msgpack, which it also encodes, without
// trusting a length in them, and JSON, of which it refuses some texts that encoding/json accepts, and reports the wrong
// element, the reason, the line and the column; and the frames that carry such messages. It depends on no particular
// message, and on no other package of treerun.
package strict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Marshal returns the encoding of a message of plain fields, structs as arrays. It panics if v has others.
func Marshal(v any) []byte {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseArrayEncodedStructs(true)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("strict: encoding %T: %v", v, err))
	}
	return b.Bytes()
}

// Unmarshal sets v from the one msgpack value in b. It is stricter than the library: bytes left over, fields that v
// does not have, deep nesting, and any length beyond the size of b are errors. (Version 5.4.1 of the library allocates
// an array of the length that the input claims: 5 bytes cost 32 GiB.)
func Unmarshal(b []byte, v any) error {
	in, d := bytes.NewReader(b), msgpack.GetDecoder()
	defer msgpack.PutDecoder(d)
	d.Reset(in)
	if err := check(d, in, maxDepth); err != nil {
		return err
	}
	if in.Len() > 0 {
		return fmt.Errorf("%d bytes are left over", in.Len())
	}
	in.Reset(b)
	d.DisallowUnknownFields(true)
	return d.Decode(v)
}

// maxDepth is the maximum nesting depth of arrays and maps.
const maxDepth = 12

var (
	errShort = errors.New("a length goes beyond the end of the input")
	errDeep  = errors.New("the input is nested too deeply")
)

// check skips one value, which d reads from in.
func check(d *msgpack.Decoder, in *bytes.Reader, depth int) error {
	if depth < 0 {
		return errDeep
	}
	first, err := d.PeekCode()
	items, each := 0, 1
	switch {
	case err != nil:
	case msgpcode.IsFixedMap(first), first == msgpcode.Map16, first == msgpcode.Map32:
		each = 2
		items, err = d.DecodeMapLen()
	case msgpcode.IsFixedArray(first), first == msgpcode.Array16, first == msgpcode.Array32:
		items, err = d.DecodeArrayLen()
	default:
		err = d.Skip()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || items > in.Len() { // an item takes a byte or more
		return errShort
	}
	for range items * each {
		if err == nil {
			err = check(d, in, depth-1)
		}
	}
	return err
}

// FrameSizes holds the kinds of the frames that two processes may send each other, with the minimum and the maximum
// length of the body of each, in bytes.
//
// A frame is a head and its body. The head is a big-endian number of 8 bytes: the most significant byte is the kind,
// the others are the length of the body.
type FrameSizes map[byte][2]int

// AppendHead appends the head of a frame with a body of n bytes to b.
func AppendHead(b []byte, kind byte, n int) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(kind)<<56|uint64(n))
}

// ReadHead reads and checks the head of a frame. The error is io.EOF, unwrapped, if r ends before a frame. After any
// error r must not be used.
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

// ReadFrame reads a frame. Its errors are those of ReadHead and ReadBody.
func ReadFrame(r io.Reader, sizes FrameSizes) (kind byte, body []byte, err error) {
	kind, n, err := ReadHead(r, sizes)
	if err == nil {
		body, err = ReadBody(r, n)
	}
	return kind, body, err
}

// ReadBody reads n bytes. Memory is allocated as the data arrives, at first at most 512 KiB.
func ReadBody(r io.Reader, n int) ([]byte, error) {
	b := []byte{}
	for len(b) < n {
		at := len(b)
		b = append(b, make([]byte, min(n-at, max(at, 512<<10)))...)
		if _, err := io.ReadFull(r, b[at:]); err == io.EOF {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Printable returns the printable form of text that came from outside, in one line and from at most limit bytes.
func Printable(text string, limit int) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case unicode.IsControl(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), limit)], "?"))
}
