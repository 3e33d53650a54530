package osys

import (
	"runtime"
	"time"
)

// Yielder lets other threads run on this core. One goroutine uses it.
type Yielder struct {
	Within bool // the awaited ranks are goroutines of this process
	yields int  // until the next look at the clock
	looked time.Time
	used   time.Duration // since other goroutines ran
}

// goschedEvery is how often Yield lets other goroutines of this process run. That costs more than it seems, as the
// runtime wakes a thread to look for more work; and where ranks share cores that thread takes the core from the rank
// that this one waits for.
const goschedEvery = time.Millisecond

// lookEvery is the number of yields between two looks at the clock, one where a yield takes as long as goschedEvery:
// beside programs that compute it takes many milliseconds, and a message of the launcher would wait for its goroutine.
const lookEvery = 16

// Yield lets another thread of the system run on this core, if one is ready, and now and then another goroutine.
func (y *Yielder) Yield() {
	if y.Within {
		runtime.Gosched()
		return
	}
	schedYield()
	if y.yields--; y.yields > 0 {
		return
	}
	now := time.Now()
	took := now.Sub(y.looked)
	if y.yields = lookEvery; took >= goschedEvery {
		y.yields = 1
	}
	y.looked = now
	if y.used += took; y.used >= goschedEvery {
		runtime.Gosched()
		y.used = 0
	}
}
