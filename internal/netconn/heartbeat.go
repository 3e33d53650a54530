package netconn

import (
	"sync/atomic"
	"time"
)

// Heartbeat finds out that the other end of a connection is gone, stopped or cut off
// although nothing ends the connection. The zero value is ready. Any goroutine may call
// Heard; Watch is for one.
type Heartbeat struct{ heard atomic.Bool }

// Heard notes that something came.
func (h *Heartbeat) Heard() { h.heard.Store(true) }

// Watch calls beat, which sends a sign of life, at every interval until ended is closed. It
// returns true, and earlier, when nothing was heard for more than limit intervals in a row. It
// counts intervals, not time: who was stopped itself does not hold that against the other end.
func (h *Heartbeat) Watch(ended <-chan struct{}, interval time.Duration, limit int, beat func()) (silent bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for missed := 0; missed <= limit; missed++ {
		select {
		case <-ended:
			return false
		case <-ticker.C:
		}
		beat()
		if h.heard.Swap(false) {
			missed = -1
		}
	}
	return true
}
