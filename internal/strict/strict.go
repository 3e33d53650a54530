// Package strict decodes what others wrote: messages in msgpack, which it also encodes, without
// trusting a length in them, and JSON, of which it refuses what encoding/json lets pass, and says
// which element is wrong, why and at which line and column. It knows no message, and imports nothing
// of treerun's.
package strict

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
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
	rest, err := skip(b, maxDepth)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes are left over", len(rest))
	}
	d := msgpack.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields(true)
	return d.Decode(v)
}

// maxDepth is how deep arrays and maps may nest.
const maxDepth = 8

var (
	errShort = errors.New("a length goes beyond the end of the input")
	errDeep  = errors.New("the input is nested too deeply")
)

// skip returns what follows the first msgpack value of b.
func skip(b []byte, depth int) ([]byte, error) {
	if depth < 0 {
		return nil, errDeep
	}
	if len(b) == 0 {
		return nil, errShort
	}
	c, b := b[0], b[1:]
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
		return b, nil
	case c <= 0x8f:
		return skipItems(b, 2*uint64(c&0x0f), depth)
	case c <= 0x9f:
		return skipItems(b, uint64(c&0x0f), depth)
	case c <= 0xbf:
		return skipBytes(b, uint64(c&0x1f))
	}
	k := kinds[c-0xc0]
	if len(b) < k.length {
		return nil, errShort
	}
	n := k.fixed
	if k.length > 0 {
		var wide [8]byte
		copy(wide[8-k.length:], b[:k.length])
		n += binary.BigEndian.Uint64(wide[:])
		b = b[k.length:]
	}
	switch {
	case k.invalid:
		return nil, fmt.Errorf("byte %#x begins no value", c)
	case k.items > 0:
		return skipItems(b, n*k.items, depth)
	}
	return skipBytes(b, n)
}

// kind says how a value with a first byte from 0xc0 goes on.
type kind struct {
	length  int    // bytes of the length field
	fixed   uint64 // bytes that follow beside those that the length counts
	items   uint64 // what the length counts: values per entry, 0 for bytes
	invalid bool
}

// kinds holds the first bytes 0xc0 to 0xdf, from the msgpack specification.
var kinds = [32]kind{
	{}, {invalid: true}, {}, {}, // nil, unused, false, true
	{length: 1}, {length: 2}, {length: 4}, // bin
	{length: 1, fixed: 1}, {length: 2, fixed: 1}, {length: 4, fixed: 1}, // ext
	{fixed: 4}, {fixed: 8}, // float
	{fixed: 1}, {fixed: 2}, {fixed: 4}, {fixed: 8}, // uint
	{fixed: 1}, {fixed: 2}, {fixed: 4}, {fixed: 8}, // int
	{fixed: 2}, {fixed: 3}, {fixed: 5}, {fixed: 9}, {fixed: 17}, // fixext
	{length: 1}, {length: 2}, {length: 4}, // str
	{length: 2, items: 1}, {length: 4, items: 1}, // array
	{length: 2, items: 2}, {length: 4, items: 2}, // map
}

func skipBytes(b []byte, n uint64) ([]byte, error) {
	if n > uint64(len(b)) {
		return nil, errShort
	}
	return b[n:], nil
}

func skipItems(b []byte, n uint64, depth int) ([]byte, error) {
	if n > uint64(len(b)) { // a value has at least one byte
		return nil, errShort
	}
	var err error
	for range n {
		if b, err = skip(b, depth-1); err != nil {
			return nil, err
		}
	}
	return b, nil
}
