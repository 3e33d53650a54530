//go:build linux

package netconn

import (
	"testing"
	"testing/synctest"
	"time"
)

// A peer that sends now and then is not silent; one that sends nothing for more than the limit of intervals is. A
// process that was itself stopped, and so had no interval, does not give up the other end.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Heartbeat
		beats := 0
		begin := time.Now()
		silent := h.Watch(nil, time.Second, 5, func() {
			switch beats++; {
			case beats <= 20 && beats%5 == 0:
				h.Received()
			case beats == 24:
				time.Sleep(time.Hour) // as if stopped
				h.Received()
			}
		})
		took := time.Since(begin) - time.Hour
		if !silent || beats != 30 || took < 29*time.Second || took > 31*time.Second {
			t.Errorf("silent %v after %d heartbeats, and %v apart from the hour", silent, beats, took)
		}
		ended := make(chan struct{})
		close(ended)
		if new(Heartbeat).Watch(ended, time.Hour, 5, func() {}) {
			t.Error("a connection that has ended is silent")
		}
	})
}
