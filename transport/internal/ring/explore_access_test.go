//go:build explore

package ring

import (
	"encoding/binary"

	"github.com/treerun/treerun/internal/call"
)

// running is the run whose threads use the ring; nil in tests that explore nothing.
var running *Interleaving

// before lets another thread run before an access.
func before(access string) {
	if running != nil {
		running.Step(access)
	}
}

// saw records the value that an access has returned, or has stored.
func saw(v uint64) {
	if running != nil {
		running.Saw(v)
	}
}

func load32(b []byte, off int, name string) uint32 {
	before("load " + name)
	v := binary.NativeEndian.Uint32(b[off:])
	saw(uint64(v))
	return v
}

func store32(b []byte, off int, v uint32, name string) {
	before("store " + name)
	binary.NativeEndian.PutUint32(b[off:], v)
	saw(uint64(v))
}

func load64(b []byte, off int, name string) uint64 {
	before("load " + name)
	v := binary.NativeEndian.Uint64(b[off:])
	saw(v)
	return v
}

func store64(b []byte, off int, v uint64, name string) {
	before("store " + name)
	binary.NativeEndian.PutUint64(b[off:], v)
	saw(v)
}

func loadWord(b []byte, off int) uint32       { return load32(b, off, "word") }
func storeWord(b []byte, off int, v uint32)   { store32(b, off, v, "word") }
func publishWord(b []byte, off int, v uint32) { store32(b, off, v, "word, to publish") }
func putLength(line []byte, n uint32)         { store32(line, offLength, n, "length") }
func putPlace(line []byte, at uint64)         { store64(line, offInline, at, "place") }
func getPlace(line []byte) uint64             { return load64(line, offInline, "place") }

func putHeader(line []byte, n uint32, h *call.Header) {
	putLength(line, n)
	store64(line, offHeader, h.Seq, "sequence")
	store64(line, offHeader+8, h.Count, "count")
	store64(line, offHeader+16, h.What, "what")
}

func getHeader(line []byte, h *call.Header) uint32 {
	h.Seq = load64(line, offHeader, "sequence")
	h.Count = load64(line, offHeader+8, "count")
	h.What = load64(line, offHeader+16, "what")
	return load32(line, offLength, "length")
}
