// Package strict decodes what others wrote: messages in msgpack, which it also encodes, without
// trusting a length in them, and JSON, of which it refuses what encoding/json lets pass, and says
// which element is wrong, why and at which line and column; and the frames that such messages travel
// in. It knows no message, and imports nothing of treerun's.
package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Marshal returns a message of plain fields, structs as arrays. It panics when v has others.
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

// Unmarshal fills v from the one msgpack value in b. Stricter than the library:
// bytes left over, fields that v does not have, deep nesting, and any length
// beyond what b holds are errors. (Version 5.4.1 of the library allocates an
// array of the length that the input claims: 5 bytes cost 32 GiB.)
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

// maxDepth is how deep arrays and maps may nest.
const maxDepth = 8

var (
	errShort = errors.New("a length goes beyond the end of the input")
	errDeep  = errors.New("the input is nested too deeply")
)

// check passes over one value, of which d reads from in.
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
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || items > in.Len() { // an item has a byte or more
		return errShort
	}
	for range items * each {
		if err == nil {
			err = check(d, in, depth-1)
		}
	}
	return err
}
