//go:build linux

package stacks

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
)

// TestTableAgrees compares the table of the test's own program with the runtime, which has another decoder.
func TestTableAgrees(t *testing.T) {
	p := &process{pid: os.Getpid()}
	var r Reader
	var err error
	if p.program, err = r.program("/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	if err := p.locate(); err != nil {
		t.Fatal(err)
	}
	if err := p.complete(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	end := uint64(number(p.funcs, uint64(8*p.count)))
	compared, inlined := 0, 0
	for range 50000 {
		pc := p.text + random.Uint64N(end)
		f, ok := p.find(pc)
		if !ok || pc <= f.entry {
			continue
		}
		got := p.framesAt(f, pc, false)
		w, _ := runtime.CallersFrames([]uintptr{uintptr(pc + p.bias)}).Next()
		if w.File == "" || f.id() == funcWrapper || f.field(4) == 0 { // the runtime has no name at offset 0
			continue
		}
		compared++
		want := Frame{w.Function, w.File, w.Line, w.Func == nil}
		if want.Inlined {
			inlined++
		}
		outer := runtime.FuncForPC(uintptr(f.entry + p.bias)).Name()
		if len(got) == 0 || got[0] != want || got[len(got)-1].Function != outer {
			t.Fatalf("at %#x %+v, want %+v and then %s", pc, got, want, outer)
		}
	}
	t.Logf("%d places, %d with inlined calls", compared, inlined)
	if compared < 10000 || inlined < 1000 {
		t.Errorf("%d places, %d of them with inlined calls: too few", compared, inlined)
	}
}

// smallTable returns a section with one function of 32 bytes at offset 16 of the text, into which another is inlined
// at its first 8 bytes, and the offset of go:func.*.
func smallTable() (section []byte, data uint64) {
	put := func(b []byte, words ...uint32) []byte {
		for _, w := range words {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	names := []byte("main.main\x00main.load\x00")
	files := []byte("main.go\x00data.go\x00")
	units := put(nil, 0, 8)
	values := []byte{0, // offset 0 means no list
		2, 0, 2, 32, 0, // 1: pcsp, 0 and then 1: a list begins with the difference from -1
		4, 8, 1, 24, 0, // 6: pcfile: 1 for 8 bytes, then 0
		20, 8, 40, 24, 0, // 11: pcln: 9 for 8 bytes, then 29
		2, 8, 1, 24, 0} // 16: the inlined call 0 for 8 bytes, then -1
	record := put(nil, 16, 0, 0, 0, 1, 6, 11, 3, 0, 5)
	record = append(record, 0, topFrame, 0, 4)
	record = put(record, 0, 0, 16)                     // pcdata
	record = put(record, 1<<32-1, 1<<32-1, 1<<32-1, 0) // funcdata
	tree := put(nil, 0, 10, 12, 8)
	funcs := append(put(nil, 16, 20, 48, 0, 0), record...)

	section = put(nil, magic)
	section = append(section, 0, 0, 1, 8)
	offset := uint64(headerSize)
	words := []uint64{1, 2, 0}
	for _, part := range [][]byte{names, units, files, values, funcs} {
		words = append(words, offset)
		offset += uint64(len(part))
	}
	for _, w := range words {
		section = binary.LittleEndian.AppendUint64(section, w)
	}
	return slices.Concat(section, names, units, files, values, funcs, tree), offset
}

func TestSmallTable(t *testing.T) {
	section, data := smallTable()
	p, err := newTable(section, 1000, data)
	if err != nil {
		t.Fatal(err)
	}
	for pc, want := range map[uint64][]Frame{
		1015: nil,
		1016: {{"main.load", "data.go", 9, true}, {"main.main", "main.go", 29, false}},
		1024: {{"main.main", "main.go", 29, false}},
		1047: {{"main.main", "main.go", 29, false}},
		1048: nil,
	} {
		f, ok := p.find(pc)
		if ok != (want != nil) {
			t.Errorf("a function at %d: %t", pc, ok)
		}
		if !ok {
			continue
		}
		if got := p.frames(f, pc); !slices.Equal(got, want) {
			t.Errorf("at %d %+v, want %+v", pc, got, want)
		}
	}
}

// FuzzTable: no bytes of a file make the decoder fail, or run without end.
func FuzzTable(f *testing.F) {
	section, data := smallTable()
	f.Add(section, data, uint64(1016))
	f.Add(section[:len(section)-1], data, uint64(1030))
	f.Add([]byte{}, uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, section []byte, data, pc uint64) {
		table, err := newTable(section, 1000, data)
		if err != nil {
			return
		}
		p := &process{program: &program{table: table, known: map[place][]Frame{}}}
		if frames, _ := p.unwind(position{pc: pc, sp: 64}, section); len(frames) > maxFrames+maxInlined {
			t.Errorf("%d frames", len(frames))
		}
	})
}
