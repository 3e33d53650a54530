//go:build linux

package stacks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"sort"
	"strings"
)

// table is the pclntab of a Go program, the section with its functions, their frames, files and lines, and with the
// trees of inlined calls. Package debug/gosym decodes neither frames nor inlined calls. The bytes are those of a file:
// every offset is checked.
type table struct {
	text    uint64 // address of the first function, as linked
	quantum uint64 // the size of the smallest instruction
	count   int    // functions
	names   []byte // C strings
	units   []byte // for each compilation unit, offsets in files
	files   []byte // C strings
	values  []byte // functions of the program counter, as pairs of varints
	funcs   []byte // count entries that map offsets from text to records, then the records
	data    []byte // go:func.*, which contains the trees of inlined calls
}

const (
	magic      = 0xfffffff1 // of Go 1.20 and later
	headerSize = 72
	recordSize = 44 // without the offsets that follow it
	inlineSize = 16
	maxName    = 4096
	maxInlined = 100

	inlineIndex = 2 // PCDATA_InlTreeIndex
	inlineTree  = 3 // FUNCDATA_InlTree
	funcWrapper = 23
	topFrame    = 1
	writesSP    = 2
)

var errTable = errors.New("the table of its functions (pclntab) is not valid")

// newTable returns the table in a section. The first function is linked at address text; data is the offset in the
// section of the data that go:func.* names.
func newTable(section []byte, text, data uint64) (*table, error) {
	if len(section) < headerSize || binary.LittleEndian.Uint32(section) != magic || section[7] != 8 ||
		section[6] == 0 || data > uint64(len(section)) {
		return nil, errTable
	}
	part := func(at int) []byte {
		return tail(section, binary.LittleEndian.Uint64(section[at:]))
	}
	t := &table{text: text, quantum: uint64(section[6]), names: part(32), units: part(40), files: part(48),
		values: part(56), funcs: part(64), data: section[data:]}
	n := binary.LittleEndian.Uint64(section[8:])
	if n == 0 || n > uint64(len(t.funcs))/8 || uint64(len(t.funcs)) < 8*n+4 {
		return nil, errTable
	}
	t.count = int(n)
	return t, nil
}

// tail returns what follows an offset, which may be too large.
func tail(b []byte, offset uint64) []byte {
	return b[min(offset, uint64(len(b))):]
}

// number returns the number at an offset, or the largest one, which no valid table has.
func number(b []byte, offset uint64) uint32 {
	if b = tail(b, offset); len(b) < 4 {
		return math.MaxUint32
	}
	return binary.LittleEndian.Uint32(b)
}

func text(b []byte, offset uint32) string {
	b = tail(b, uint64(offset))
	n := bytes.IndexByte(b[:min(len(b), maxName)], 0)
	if n < 0 {
		return "?"
	}
	return string(b[:n])
}

// function is one function of a table.
type function struct {
	entry  uint64
	record []byte // at least recordSize
}

func (t *table) find(pc uint64) (function, bool) {
	if pc < t.text || pc-t.text > math.MaxUint32 {
		return function{}, false
	}
	offset := uint32(pc - t.text)
	i := sort.Search(t.count+1, func(i int) bool { return number(t.funcs, uint64(8*i)) > offset }) - 1
	if i < 0 || i == t.count { // before the first function, or after the last
		return function{}, false
	}
	record := tail(t.funcs, uint64(number(t.funcs, uint64(8*i+4))))
	if len(record) < recordSize {
		return function{}, false
	}
	return function{t.text + uint64(number(t.funcs, uint64(8*i))), record}, true
}

func (f function) field(at uint64) uint32 { return number(f.record, at) }
func (f function) id() byte               { return f.record[40] }
func (f function) has(flag byte) bool     { return f.record[41]&flag != 0 }

// nameAt returns the name of a function as Go prints it, without type arguments.
func (t *table) nameAt(offset uint32) string {
	name := text(t.names, offset)
	if i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); i >= 0 && i < j {
		return name[:i] + "[...]" + name[j+1:]
	}
	return name
}

func (t *table) name(f function) string { return t.nameAt(f.field(4)) }

// value returns the value at pc of the list at an offset in values, or -1.
func (t *table) value(f function, offset uint32, pc uint64) int32 {
	if offset == 0 {
		return -1
	}
	list, value, at := tail(t.values, uint64(offset)), int32(-1), f.entry
	for first := true; ; first = false {
		delta, n := binary.Uvarint(list)
		if n <= 0 || delta == 0 && !first {
			return -1
		}
		step, m := binary.Uvarint(list[n:])
		if m <= 0 || step > math.MaxUint32 {
			return -1
		}
		list = list[n+m:]
		value += int32(-(delta & 1) ^ (delta >> 1))
		if at += step * t.quantum; pc < at {
			return value
		}
	}
}

// inlined returns the index, in the tree of f, of the inlined call that pc belongs to, or -1.
func (t *table) inlined(f function, pc uint64) int32 {
	if f.field(28) <= inlineIndex {
		return -1
	}
	return t.value(f, f.field(recordSize+4*inlineIndex), pc)
}

// frames returns the frames at pc, which belongs to f: inlined calls, the innermost first, and f itself.
func (t *table) frames(f function, pc uint64) (all []Frame) {
	var tree []byte
	if offset := f.field(recordSize + 4*uint64(f.field(28)) + 4*inlineTree); f.record[43] > inlineTree &&
		offset != math.MaxUint32 {
		tree = tail(t.data, uint64(offset))
	}
	for range maxInlined {
		frame := t.place(f, pc)
		index := t.inlined(f, pc)
		call := tail(tree, uint64(uint32(index))*inlineSize)
		if index < 0 || len(call) < inlineSize {
			frame.Function = t.name(f)
			return withoutWrapper(all, frame, f.id())
		}
		frame.Function, frame.Inlined = t.nameAt(number(call, 4)), true
		all = withoutWrapper(all, frame, call[0])
		pc = f.entry + uint64(number(call, 8))
	}
	return all
}

// withoutWrapper appends a frame, unless its function was made by the compiler.
func withoutWrapper(all []Frame, frame Frame, id byte) []Frame {
	if id == funcWrapper {
		return all
	}
	return append(all, frame)
}

// place returns a frame with the file and the line of pc.
func (t *table) place(f function, pc uint64) Frame {
	file, line := t.value(f, f.field(20), pc), t.value(f, f.field(24), pc)
	if file < 0 || line < 0 {
		return Frame{File: "?"}
	}
	offset := number(t.units, 4*(uint64(f.field(32))+uint64(file)))
	return Frame{File: text(t.files, offset), Line: int(line)}
}
