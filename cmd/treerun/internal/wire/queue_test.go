package wire

import (
	"slices"
	"testing"
)

// What is added comes in order, what was added before Begin and its first values first; and
// nobody who adds waits for it.
func TestQueue(t *testing.T) {
	var q Queue[int]
	got, hold, all := []int(nil), make(chan struct{}), make(chan struct{})
	q.Add(1)
	q.Begin(func(batch []int) {
		<-hold
		if got = append(got, batch...); len(got) == 1000 {
			close(all)
		}
	}, 0)
	for i := 2; i < 1000; i++ {
		q.Add(i)
	}
	close(hold)
	<-all
	if !slices.IsSorted(got) {
		t.Errorf("got %d values: %v", len(got), got)
	}
}
