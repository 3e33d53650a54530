package exchange

import (
	"errors"
	"testing"

	"github.com/treerun/treerun/internal/waits"
)

// An AllGather that ends because a connection broke waits for nobody any more: it is neither
// reported nor told of.
func TestSendFailed(t *testing.T) {
	for _, left := range []uint64{0, 5} { // AllGather 0 cannot complete; it can, and the peer is gone all the same
		m := New(Config{Size: 2})
		g := &gather{Mesh: m, run: t.Context(), wait: (&waits.Job{Size: 2}).NewWait("", nil), op: "AllGather"}
		m.take(notice(leftFrame, 1, left, nil))
		g.publish(0, 1, "to take blobs")
		err := g.sendFailed(1, errors.New("broken pipe"))
		if e := (*Fault)(nil); !errors.As(err, &e) || e.Rank != 1 || g.wait.Doing() != "" {
			t.Errorf("left after %d: %v, and it still waits in %q", left, err, g.wait.Doing())
		}
	}
}
