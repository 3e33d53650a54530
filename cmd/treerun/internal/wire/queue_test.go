package wire

import (
	"slices"
	"testing"
	"time"
)

// What is added comes in order, what was added before Begin and its first values first; and
// nobody who adds waits for it.
func TestQueue(t *testing.T) {
	var q Queue[int]
	got, hold := []int(nil), make(chan struct{})
	q.Add(1)
	q.Begin(func(batch []int) {
		<-hold
		got = append(got, batch...)
	}, 0)
	for i := 2; i < 1000; i++ {
		q.Add(i)
	}
	if q.Idle() {
		t.Error("idle with work to do")
	}
	close(hold)
	for !q.Idle() {
		time.Sleep(time.Millisecond)
	}
	if len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("got %d values: %v", len(got), got)
	}
}
