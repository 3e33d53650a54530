package call

import (
	"testing"

	"pgregory.net/rapid"
)

// The first call that two ranks made otherwise is found as long as it is there,
// and none other.
func TestSharedLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mine, theirs := make(SharedLog, SharedLogBytes/8), make(SharedLog, SharedLogBytes/8)
		none := make(SharedLog, SharedLogBytes/8)
		ahead := uint64(rapid.IntRange(0, 3*Logged).Draw(t, "ahead"))
		behind := uint64(rapid.IntRange(1, 2*Logged).Draw(t, "behind"))
		odd := uint64(rapid.IntRange(1, int(behind)).Draw(t, "odd"))
		at := func(seq uint64) ID {
			return ID{Seq: seq, Count: seq * 3, Kind: Kind(seq%6) + 1, Device: true, Op: 1, DType: 9, Root: int32(seq%3) - 1}
		}
		for seq := uint64(1); seq <= behind; seq++ {
			id := at(seq)
			mine.Put(id)
		}
		for seq := uint64(1); seq <= behind+ahead; seq++ {
			id := at(seq)
			if seq == odd {
				id.Root = 7
			}
			theirs.Put(id)
		}
		latest := func() uint64 { return behind + ahead }
		a, o, found, next := mine.Differs(theirs, 1, behind, latest)
		there := odd+Logged > behind+ahead
		if found != there {
			t.Fatalf("call %d of %d differs, the other is %d ahead: found %v, want %v", odd, behind, ahead, found, there)
		}
		if want := behind + 1; !found && next != want {
			t.Fatalf("compared up to %d, want %d", next, want)
		}
		if found && (a != at(odd) || o.Seq != odd || o.Root != 7) {
			t.Fatalf("found %+v and %+v in place of call %d", a, o, odd)
		}
		if _, _, found, next := mine.Differs(none, 1, behind, func() uint64 { return 0 }); found ||
			next != max(1, behind-min(behind, Logged)+1) {
			t.Fatalf("of a rank that has called nothing, calls up to %d are the same", next)
		}
		// One that has called something else, which is not noted, is found as long as no other call can have
		// its place.
		if there {
			theirs.words(odd)[0].Store(0)
		}
		a, o, found, _ = mine.Differs(theirs, 1, behind, latest)
		if there = odd+Logged-1 > behind+ahead; found != there ||
			found && (a != at(odd) || o != ID{Seq: odd}) {
			t.Fatalf("call %d of %d was never noted, the other is %d ahead: found %v %v and %v, want %v", odd, behind, ahead,
				found, a, o, there)
		}
		if _, ok := none.At(5); ok {
			t.Fatal("a rank that has called nothing has a call")
		}
	})
}
