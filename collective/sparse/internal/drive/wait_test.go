package drive

import (
	"testing"
	"time"
)

// The time of a wait begins anew when the call has moved: a call that takes long, but moves, is
// no stall.
func TestMovedBeginsAnew(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	s := sleeper{since: long, looked: long}
	s.moved()
	if !s.since.IsZero() || !s.looked.IsZero() || s.published {
		t.Errorf("after a move: since %v, looked %v, published %v", s.since, s.looked, s.published)
	}
}
