package call

import "testing"

// TestLog: the latest Logged calls are found by their numbers, and no other calls.
func TestLog(t *testing.T) {
	var l Log
	if id, ok := l.At(0); ok {
		t.Fatalf("an empty log has %v", id)
	}
	const last = 3 * Logged
	for seq := uint64(1); seq <= last; seq++ {
		l.Put(&Header{Seq: seq, What: What(uint8(Barrier), 0, 0, 0, 0)})
	}
	for seq := uint64(0); seq <= last+Logged; seq++ {
		want := seq > last-Logged && seq <= last
		if id, ok := l.At(seq); ok != want || ok && id.Seq != seq {
			t.Errorf("call %d: found %v %v, want %v", seq, ok, id, want)
		}
	}
}
