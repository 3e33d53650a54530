package transporttest

import (
	"testing"

	"github.com/treerun/treerun/transport"
)

// testView lets every rank of a set, which need not be all ranks, give out a
// block: each rank writes its number into every block and then finds all numbers
// in its own. What is not there cannot be asked for.
func testView(t *testing.T, open Open) {
	l := Pair(2, 64)
	l.HeapBytes = 4 << 20
	all := opened(t, open, l)
	if _, is := all[0].(transport.SharedHeap); !is {
		return // a transport that does not claim it
	}
	blocks, places := make([][]byte, len(all)), make([]int, len(all))
	for r, e := range all {
		if _, err := e.Alloc(100); err != nil { // so that not all blocks are at 0
			t.Fatal(err)
		}
		b, err := e.Alloc(5000)
		if err != nil {
			t.Fatal(err)
		}
		at, ok := e.(transport.SharedHeap).Offset(b)
		if !ok {
			t.Fatalf("rank %d: its own block has no place", r)
		}
		blocks[r], places[r] = b, at
		if _, ok := e.(transport.SharedHeap).Offset(make([]byte, 8)); ok {
			t.Errorf("rank %d: memory of the test has a place", r)
		}
	}
	for q, e := range all {
		for r := range all {
			b, err := e.(transport.SharedHeap).View(r, places[r], len(blocks[r]))
			if err != nil || len(b) != len(blocks[r]) {
				t.Fatalf("rank %d looks at rank %d: %d bytes, %v", q, r, len(b), err)
			}
			b[q], b[len(b)-1-q] = byte(q+1), byte(q+1)
		}
		for _, bad := range [][3]int{{-1, 0, 8}, {len(all), 0, 8}, {0, -1, 8}, {0, 0, l.HeapBytes + 1}, {0, l.HeapBytes, 1},
			{0, 8, -1}} {
			if b, err := e.(transport.SharedHeap).View(bad[0], bad[1], bad[2]); err == nil {
				t.Errorf("rank %d: %d bytes at %d of rank %d: %d bytes", q, bad[2], bad[1], bad[0], len(b))
			}
		}
	}
	for r, b := range blocks {
		for q := range all {
			if b[q] != byte(q+1) || b[len(b)-1-q] != byte(q+1) {
				t.Errorf("rank %d does not see what rank %d wrote", r, q)
			}
		}
	}
}
