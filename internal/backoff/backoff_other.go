//go:build !linux

package backoff

import (
	"runtime"
	"time"
)

// Yield lets another goroutine run.
func Yield() { runtime.Gosched() }

// Nap leaves the core for d.
func Nap(d time.Duration) { time.Sleep(d) }
