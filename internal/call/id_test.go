package call

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/kernel"
)

// goldenHeaders calls f for each call of testdata/headers.txt, with its header in three words and its description.
func goldenHeaders(t testing.TB, f func(id ID, words [3]uint64, text string)) {
	t.Helper()
	table, err := os.ReadFile("testdata/headers.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSpace(line), ": ", 3)
		var id ID
		var w [3]uint64
		if _, err := fmt.Sscan(fields[0], (*uint8)(&id.Kind), &id.Varied, &id.Device, &id.Seq, &id.Count, (*uint8)(&id.Op),
			&id.Scaled, (*uint16)(&id.DType), &id.Chain, &id.Root, &id.Number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := fmt.Sscanf(fields[1], "%x %x %x", &w[0], &w[1], &w[2]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if id.Op == function {
			id.Func, id.Op = true, 0
		}
		if id.Kind == Message {
			id.Root, id.Tag = 0, id.Root
		}
		f(id, w, fields[2])
	}
}

// TestHeaders compares headers and descriptions with those of the version of treerun that wrote testdata/headers.txt,
// before there were IDs: the format of the header is that of frames and shared memory.
func TestHeaders(t *testing.T) {
	rows := 0
	goldenHeaders(t, func(id ID, words [3]uint64, text string) {
		rows++
		if h := id.Header(); h.Words() != words {
			t.Errorf("%v (%+v) has the header %x, want %x", id, id, h.Words(), words)
		}
		if got := HeaderOf(words).ID(); got != id {
			t.Errorf("header %x is decoded as %+v, want %+v", words, got, id)
		}
		if id.String() != text {
			t.Errorf("%+v is %q, want %q", id, id, text)
		}
	})
	if rows < 280 {
		t.Errorf("%d headers in the table", rows)
	}
}

// TestNames: a call is named after the function that makes it.
func TestNames(t *testing.T) {
	for want, id := range map[string]ID{
		"AllReduce": {Kind: AllReduce}, "GatherV": {Kind: Gather, Varied: true}, "ReduceDevice": {Kind: Reduce, Device: true},
		"Split": {Kind: Split}, "ExScanFunc": {Kind: ExScan, Func: true}, "unknown call 17": {Kind: 17},
	} {
		if id.Name() != want {
			t.Errorf("%+v is named %q, want %q", id, id.Name(), want)
		}
	}
}

// FuzzHeader decodes what a peer may have written: no header is lost, or fails to have a description.
func FuzzHeader(f *testing.F) {
	goldenHeaders(f, func(_ ID, w [3]uint64, _ string) { f.Add(w[0], w[1], w[2]) })
	sync := ID{Kind: Message, Count: 3, DType: 1, Tag: 5, Sync: true}.Header()
	f.Add(sync.Seq, sync.Count, sync.What)
	f.Fuzz(func(t *testing.T, a, b, c uint64) {
		h := HeaderOf([3]uint64{a, b, c})
		id := h.ID()
		if again := id.Header(); again != h || h.Words() != [3]uint64{a, b, c} {
			t.Errorf("%+v is decoded as %+v, which is encoded as %+v", h, id, again)
		}
		if id.String() == "" || id.Number >= Numbers {
			t.Errorf("%+v is decoded as %+v, %q", h, id, id)
		}
	})
}

// TestTypesInHeader: a header has all of the digest of a type.
func TestTypesInHeader(t *testing.T) {
	for _, of := range []ID{
		{Kind: Message, Tag: 5},
		{Kind: Broadcast, Root: 2, Number: 3},
		{Kind: AllGather, Root: -1, Varied: true, Parts: 1 << 20},
		{Kind: AllReduce, Root: -1, Func: true},
		{Kind: ReduceScatter, Root: -1, Func: true},
		{Kind: Scan, Root: -1, Func: true},
	} {
		headers := map[Header]kernel.DType{}
		for d := kernel.Opaque; d < kernel.DTypeEnd; d++ {
			of.DType = d
			h := of.Header()
			if other, taken := headers[h]; taken || h.ID() != of {
				t.Fatalf("%+v has the header %x, which is decoded as %+v, and that of type %v", of, h.Words(), h.ID(), other)
			}
			headers[h] = d
		}
	}
}

// TestNumbered: a header has the root and the number of its call, for every number.
func TestNumbered(t *testing.T) {
	for _, root := range []int32{-1, 0, 1, 1<<15 - 1, 1 << 15, 1<<16 - 1} {
		id := ID{Kind: Broadcast, Root: root}
		if root < 0 {
			id.Kind = AllReduce
		}
		for n := range Numbers {
			id.Number = uint16(n)
			h := id.Header()
			got := h.Root()
			if h.ID() != id || n == 0 && got != root || root >= 0 && uint16(got) != uint16(root) {
				t.Fatalf("root %d, number %d: root %x in the header, which is decoded as %+v", root, n, got, h.ID())
			}
		}
	}
}

// TestPartsInHeader: a header has the digest of parts beside any number and any count that memory can hold.
func TestPartsInHeader(t *testing.T) {
	for _, kind := range []Kind{AllGather, ReduceScatter} {
		for _, parts := range []uint32{0, 1, 1<<16 - 1, 1 << 16, 1<<31 + 5, 1<<32 - 1} {
			for _, count := range []uint64{0, 7, 1<<48 - 1} {
				for _, number := range []uint16{0, 1, Numbers - 1} {
					id := ID{Kind: kind, Varied: true, Root: -1, Parts: parts, Count: count, Number: number}
					if h := id.Header(); h.ID() != id {
						t.Errorf("%+v has the header %x, which is decoded as %+v", id, h.Words(), h.ID())
					}
				}
			}
		}
	}
}
