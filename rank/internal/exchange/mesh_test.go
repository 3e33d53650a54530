package exchange

import (
	"errors"
	"testing"

	"github.com/treerun/treerun/internal/waits"
)

// An AllGather that ends because a connection broke waits for no rank any more: it appears neither in reports nor in
// answers.
func TestSendFailed(t *testing.T) {
	for _, left := range []uint64{0, 5} { // AllGather 0 cannot complete; it can, and the peer is gone nevertheless
		m := New(Config{Size: 2})
		g := &gather{mesh: m, run: t.Context(), wait: (&waits.Job{Size: 2}).NewWait("", nil), op: "AllGather"}
		m.record(notice(leftFrame, 1, left, nil))
		g.publish(0, 1, "to take blobs")
		err := g.sendFailed(1, errors.New("broken pipe"))
		if e := (*Fault)(nil); !errors.As(err, &e) || e.Rank != 1 || g.wait.Doing() != "" {
			t.Errorf("left after %d: %v, and it still waits in %q", left, err, g.wait.Doing())
		}
	}
}

// The first failure is the cause of the others. Every rank that has failed, closed or ended is gone.
func TestGone(t *testing.T) {
	m := New(Config{Size: 6})
	m.MarkFailed(2, "killed")
	m.MarkFailed(1, "killed, too")
	m.broadcast(notice(failedFrame, 3, 0, reported{"ended", ErrFailed}))
	m.broadcast(notice(leftFrame, 4, 0, nil))
	m.MarkEnded(5)
	if f := m.Failure(); f == nil || f.Rank != 2 {
		t.Errorf("the first failure is %v", f)
	}
	for r, want := range []bool{false, true, true, true, true, true} {
		if m.Gone(r) != want {
			t.Errorf("rank %d is gone: %v", r, !want)
		}
	}
	if m.record(notice(failedFrame, 1, 0, reported{"ended", ErrFailed})) {
		t.Error("a failure that was known is news")
	}
}
