//go:build linux

package wire

import (
	"slices"
	"testing"
)

// Values arrive in order, those of Begin first, then those added before it; and Add never waits.
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
