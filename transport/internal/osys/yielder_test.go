//go:build linux

package osys

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// Beside a program that computes, a yield takes a slice of its time. Other goroutines run after each such yield.
func TestLongYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var y Yielder
	y.Yield()
	for range 10 {
		var ran atomic.Bool
		go ran.Store(true)
		for range 2 { // the runtime now and then continues with the goroutine that yields
			for begin := time.Now(); time.Since(begin) < 2*goschedEvery; { // as long as such a yield takes
			}
			y.Yield()
		}
		if !ran.Load() {
			t.Fatal("no other goroutine has run after two yields of 2 ms")
		}
	}
}
