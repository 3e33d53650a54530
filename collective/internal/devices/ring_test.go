package devices

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/call"
)

func testBlock(flags, ranks int) *block {
	b := &block{Flags: flags, Given: make([]int64, ranks)}
	b.Mem = make([]byte, b.bytes()) // as large as that it is aligned
	return b
}

// The first call that two ranks made otherwise is found as long as it is there,
// and none other.
func TestCallRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := testBlock(4096, 3)
		mine, theirs := b.ring(0), b.ring(2)
		ahead := uint64(rapid.IntRange(0, 3*MaxCalls).Draw(t, "ahead"))
		behind := uint64(rapid.IntRange(1, 2*MaxCalls).Draw(t, "behind"))
		odd := uint64(rapid.IntRange(1, int(behind)).Draw(t, "odd"))
		header := func(seq uint64) call.Header {
			return call.Header{Seq: seq, Count: seq * 3, Kind: uint8(seq%6) + 0x41, Op: 1, DType: 9, Root: int32(seq%3) - 1}
		}
		for seq := uint64(1); seq <= behind; seq++ {
			h := header(seq)
			mine.put(&h)
		}
		for seq := uint64(1); seq <= behind+ahead; seq++ {
			h := header(seq)
			if seq == odd {
				h.Root = 7
			}
			theirs.put(&h)
		}
		latest := func() uint64 { return behind + ahead }
		a, o, found, next := mine.differs(theirs, 1, behind, latest)
		there := odd+MaxCalls > behind+ahead
		if found != there {
			t.Fatalf("call %d of %d differs, the other is %d ahead: found %v, want %v", odd, behind, ahead, found, there)
		}
		if want := behind + 1; !found && next != want {
			t.Fatalf("compared up to %d, want %d", next, want)
		}
		if found && (a != header(odd) || o.Seq != odd || o.Root != 7) {
			t.Fatalf("found %+v and %+v in place of call %d", a, o, odd)
		}
		if _, _, found, next := mine.differs(b.ring(1), 1, behind, func() uint64 { return 0 }); found ||
			next != max(1, behind-min(behind, MaxCalls)+1) {
			t.Fatalf("of a rank that has called nothing, calls up to %d are the same", next)
		}
		// One that has called something else, which is not noted, is found as long as no other call can have its place.
		if there {
			theirs.at(odd)[0].Store(0)
		}
		a, o, found, _ = mine.differs(theirs, 1, behind, latest)
		if there = odd+MaxCalls-1 > behind+ahead; found != there ||
			found && (a != header(odd) || o != call.Header{Seq: odd}) {
			t.Fatalf("call %d of %d was never noted, the other is %d ahead: found %v %v and %v, want %v", odd, behind, ahead,
				found, a, o, there)
		}
		if _, ok := b.ring(1).get(5); ok {
			t.Fatal("a rank that has called nothing has a call")
		}
	})
}

// The parts of a block do not overlap, and flags have the requested size.
func TestDeviceBlock(t *testing.T) {
	for _, ranks := range []int{1, 2, 8} {
		b := testBlock(8192, ranks)
		for i := range ranks {
			ring := b.ring(i)
			for k := range ring {
				ring[k].Store(^uint64(0))
			}
			if b.stage(i).Load() != 0 {
				t.Fatalf("rank %d of %d: its stage lies in a ring", i, ranks)
			}
			b.stage(i).Store(stageLeft)
		}
		for _, v := range b.Mem[:b.Flags] {
			if v != 0 {
				t.Fatal("a ring lies in the flags")
			}
		}
		if at := b.slotsAt(0); at%blockGrain != 0 || at > len(b.Mem) {
			t.Errorf("slots begin at byte %d of %d, which is not where a page begins", at, len(b.Mem))
		}
	}
}
