package netconn

import (
	"sync/atomic"
	"time"
)

// Heartbeat detects that the other end of a connection is gone, stopped or cut off although nothing ends the
// connection. The zero value is ready for use. Received may be called concurrently; Watch is for one goroutine.
type Heartbeat struct{ received atomic.Bool }

// Received records that data was received.
func (h *Heartbeat) Received() { h.received.Store(true) }

// Watch calls beat, which sends a heartbeat, at every interval until ended is closed. It returns true, and earlier,
// after more than limit consecutive intervals without a call of Received. It counts intervals, not time, so that a
// process that was itself stopped does not conclude that the other end is lost.
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
		if h.received.Swap(false) {
			missed = -1
		}
	}
	return true
}
