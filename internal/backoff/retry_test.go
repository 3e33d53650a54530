package backoff

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses double up to the longest, and end with the context.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		r := Retry{Min: 3 * time.Second, Max: 10 * time.Second}
		begin := time.Now()
		var times []int
		for r.Pause(ctx) {
			times = append(times, int(time.Since(begin).Seconds()))
		}
		if want := []int{3, 9, 19, 29, 39}; !slices.Equal(times, want) || time.Since(begin) != 40*time.Second {
			t.Errorf("attempts after %v s, want %v; the end after %v", times, want, time.Since(begin))
		}
		if r.Pause(ctx) || time.Since(begin) != 40*time.Second {
			t.Errorf("a pause after the end of the context: %v", time.Since(begin))
		}
	})
}
