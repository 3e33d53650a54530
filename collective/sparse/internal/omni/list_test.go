package omni

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
	"github.com/treerun/treerun/internal/kernel"
)

// sparseBlock returns a block in which each element is not zero with a probability.
func sparseBlock(n, width int, part float64, seed uint64) []byte {
	b, r := make([]byte, n*width), seeded(seed)
	for i := range n {
		if r.Float64() < part {
			putElement(b[i*width:], width, r.Uint64()|1)
		}
	}
	return b
}

func listShape(n int, dt kernel.DType) *Shape {
	return &Shape{Grid: block.Grid{Elements: n, Size: n, Width: dt.Size()}, DType: dt, Lists: true}
}

// A block is a list where that is shorter, and comes back with all its bits: of
// any type, of sizes around those at which indices become longer.
func TestListAndBack(t *testing.T) {
	var l lister
	lists, blocks := 0, 0
	for _, dt := range append(sparsetest.Types, kernel.Int8) {
		for _, n := range []int{1, 2, 3, 7, 15, 16, 17, 64, 255, 256, 257, 1<<16 - 1, 1 << 16, 1<<16 + 1} {
			for i, part := range []float64{0, 0.001, 0.1, 0.3, 0.6, 0.9, 1} {
				s := listShape(n, dt)
				width := dt.Size()
				want := sparseBlock(n, width, part, uint64(n+i))
				hits := 0
				for at := 0; at < len(want); at += width {
					if element(want[at:], width) != 0 {
						hits++
					}
				}
				index := s.indexBytes()
				size := index + hits*(index+width)
				packet := bytes.Clone(want)
				got := l.shorten(s, packet)
				blocks++
				if got == len(want) {
					// Of much shorter lists no sample of the elements may say otherwise.
					if s.maxPairs(len(want)) > 0 && (n <= probes && size <= len(want)/2 || size < len(want)/5) {
						t.Errorf("%v: %d of %d elements: no list of %d bytes", dt, hits, n, size)
					}
					if !bytes.Equal(packet, want) {
						t.Fatalf("%v: a block of %d that is no list has changed", dt, n)
					}
					continue
				}
				lists++
				if got != size || got > len(want)/2 {
					t.Fatalf("%v: %d of %d elements are a list of %d bytes, want %d", dt, hits, n, got, size)
				}
				list, rest, err := s.cutList(packet[:got:got], len(want))
				if err != nil || len(rest) != 0 {
					t.Fatalf("%v: a list of %d bytes leaves %d: %v", dt, got, len(rest), err)
				}
				back := bytes.Repeat([]byte{sparsetest.Garbage}, len(want))
				if s.spread(back, list); !bytes.Equal(back, want) {
					t.Fatalf("%v: a block of %d with %d elements comes back as another", dt, n, hits)
				}
			}
		}
	}
	if lists < blocks/4 || lists > blocks*9/10 {
		t.Errorf("%d of %d blocks are lists", lists, blocks)
	}
}

// An element that is -0 has a bit: it travels.
func TestListHasMinusZero(t *testing.T) {
	s := listShape(64, kernel.Float32)
	b := make([]byte, 256)
	putElement(b[40:], 4, 1<<31)
	putElement(b[80:], 4, 0x3F800000)
	want := []byte{2, 10, 20, 0, 0, 0, 0x80, 0, 0, 0x80, 0x3F}
	var l lister
	if n := l.shorten(s, b); !bytes.Equal(b[:n], want) {
		t.Errorf("list % x, want % x", b[:n], want)
	}
}

// What stands on the wire of a packet with a list and a block of values.
func TestPacketWithList(t *testing.T) {
	x := sparsetest.New(2, block.Grid{Elements: 16, Size: 4}, kernel.Sum, kernel.Float32)
	x.PutBits(0, 0, true, 0, 0, 0, 0x3F800000)
	x.PutBits(0, 1, true, 0x40000000)
	s := shaped(x, 1, 1, 2).shape
	s.Lists = true
	w := NewWorker(0)
	if err := w.Begin(3, s, Input{Blocks: x.Sets[0], Send: x.Send[0], Recv: make([]byte, 64)}); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, s.MaxPacket())
	p = p[HeaderBytes:w.Compose(0, p)]
	want := []byte{
		1, 3, 0, 0, 0x80, 0x3F, // block 0: one pair, element 3
		0, 0, 0, 0x40, 0, 0, 0, 0x40, 0, 0, 0, 0x40, 0, 0, 0, 0x40, // block 1
		4, 0, 0, 0x80, 5, 0, 0, 0, // infinities; column 0 is a list
	}
	if !bytes.Equal(p, want) {
		t.Errorf("packet\n% x, want\n% x", p, want)
	}
}

// listCase is the begin of a packet's body, and what is wrong with the list there; "" if
// nothing is.
var listCases = map[string]struct {
	body []byte
	says string
}{
	"none":           {[]byte{0, 9}, ""},
	"two":            {[]byte{2, 3, 7, 1, 0, 2, 0, 9}, ""},
	"nothing":        {nil, "0 bytes are left"},
	"longer":         {bytes.Repeat([]byte{6}, 40), "too long for its block"},
	"cut":            {[]byte{2, 3, 7, 1, 0, 2}, "5 bytes are left"},
	"place twice":    {[]byte{2, 3, 3, 1, 0, 2, 0}, "element 3 follows element 3"},
	"places fall":    {[]byte{2, 3, 2, 1, 0, 2, 0}, "element 2 follows element 3"},
	"behind the end": {[]byte{1, 8, 1, 0}, "element 8 follows"},
	"far behind":     {[]byte{1, 255, 1, 0}, "element 255 follows"},
	"most that fit":  {[]byte{2, 0, 1, 1, 1, 1, 1}, ""},
	"one pair more":  {[]byte{3, 0, 1, 2, 1, 1, 1, 1, 1, 1}, "too long for its block"},
}

// Lists of blocks of 8 elements of 2 bytes.
func TestListsThatAreRefused(t *testing.T) {
	s := listShape(8, kernel.Float16)
	for name, c := range listCases {
		list, _, err := s.cutList(c.body, 16)
		switch {
		case c.says == "" && err == nil:
			s.spread(make([]byte, 16), list)
		case c.says == "" || err == nil || !strings.Contains(err.Error(), c.says):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	// A list where none may be: without Lists, and of a block that is not carried.
	for says, lists := range map[string]bool{"is not carried, and is a list": true, "neither that of a block": false} {
		x := fuzzed()
		x.shape.Lists = lists
		a := NewAggregator(0)
		must(a.Begin(1, x.shape))
		p := make([]byte, HeaderBytes, HeaderBytes+entryBytes)
		h := Header{Tensor: 1, Entries: 1, Digest: x.shape.Digest()}
		h.put(p)
		p = append(p, 1, 0, 0, 0)
		putElement(p[HeaderBytes:], 4, uint64(x.shape.infinity(0)|listedFlag))
		if _, err := a.Handle(p); !errors.Is(err, block.ErrProtocol) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// FuzzList: whatever stands where a list should be is an error, or a block of which
// the same list can be made again.
func FuzzList(f *testing.F) {
	for _, c := range listCases {
		f.Add(uint8(8), c.body)
	}
	f.Fuzz(func(t *testing.T, elements uint8, body []byte) {
		n := int(elements) + 1
		s := listShape(n, kernel.Float16)
		list, rest, err := s.cutList(body, 2*n)
		if err != nil {
			return
		}
		if index := s.indexBytes(); len(rest) != len(body)-len(list)-index || index+len(list) > max(n, index) {
			t.Fatalf("%d bytes are a list of %d and %d more, of a block of %d", len(body), len(list), len(rest), n)
		}
		b := bytes.Repeat([]byte{sparsetest.Garbage}, 2*n)
		s.spread(b, list)
		var l lister
		want := bytes.Clone(b)
		m := l.shorten(s, b)
		if m == len(b) {
			return // a sample of the elements was against it
		}
		if list, _, err = s.cutList(b[:m], len(b)); err != nil {
			t.Fatal(err)
		}
		if s.spread(b, bytes.Clone(list)); !bytes.Equal(b, want) {
			t.Fatalf("block % x comes back as % x", want, b)
		}
	})
}

// BenchmarkList counts the bytes of a block.
func BenchmarkList(b *testing.B) {
	for _, part := range []float64{0.01, 0.1, 0.5, 1} {
		s := listShape(256, kernel.Float32)
		in := sparseBlock(256, 4, part, 1)
		out := make([]byte, len(in))
		var l lister
		b.Run(fmt.Sprint("shorten/", part), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				copy(out, in)
				l.shorten(s, out)
			}
		})
		copy(out, in)
		n := l.shorten(s, out)
		if n == len(in) {
			continue
		}
		b.Run(fmt.Sprint("spread/", part), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				list, _, err := s.cutList(out[:n], len(in))
				must(err)
				s.spread(in, list)
			}
		})
	}
}
