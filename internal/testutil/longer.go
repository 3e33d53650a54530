package testutil

import (
	"testing"
	"time"
)

// tries is how many limits With tries, each times longer than the one before.
const (
	tries = 4
	times = 4
)

// WithLonger calls try with a limit, and again with longer ones as long as it returns
// an error, up to 64 times the first. The last error is the test's; those before
// are logged. What try must never do under any limit it has to report itself.
func WithLonger(t testing.TB, limit time.Duration, try func(limit time.Duration) error) {
	t.Helper()
	for i := range tries {
		err := try(limit)
		switch {
		case err == nil:
			return
		case i == tries-1:
			t.Errorf("with a limit of %v: %v", limit, err)
		default:
			t.Logf("with a limit of %v, too little if this machine is busy: %v", limit, err)
		}
		limit *= times
	}
}
