package mem

import (
	"testing"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// BenchmarkChunk measures the instructions of one small chunk's way through a
// link, without any other core: reserve, commit, peek, release.
func BenchmarkChunk(b *testing.B) {
	all, err := New(testutil.Pair(4, 4096))
	if err != nil {
		b.Fatal(err)
	}
	s, err := all[0].Sender(0, 1)
	if err != nil {
		b.Fatal(err)
	}
	r, err := all[1].Receiver(0, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var h transport.Header
	for b.Loop() {
		w, _, _ := s.TryReserve(8)
		w[0]++
		s.Commit(&h)
		_, _, _ = r.TryPeek(&h)
		r.Release()
	}
}

// BenchmarkEmpty measures one poll of an empty link.
func BenchmarkEmpty(b *testing.B) {
	all, err := New(testutil.Pair(4, 4096))
	if err != nil {
		b.Fatal(err)
	}
	r, err := all[1].Receiver(0, 0)
	if err != nil {
		b.Fatal(err)
	}
	var h transport.Header
	for b.Loop() {
		_, _, _ = r.TryPeek(&h)
	}
}

// BenchmarkEnter measures the publication of a call, once per collective.
func BenchmarkEnter(b *testing.B) {
	all, err := New(testutil.Pair(4, 4096))
	if err != nil {
		b.Fatal(err)
	}
	var h transport.Header
	for b.Loop() {
		h.Seq++
		all[0].Enter(&h)
	}
}
