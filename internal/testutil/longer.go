package testutil

import (
	"testing"
	"time"
)

// tries is the number of limits that WithLonger tries, each times the one before.
const (
	tries = 4
	times = 4
)

// WithLonger calls try with a limit, and again with longer ones as long as it returns an error, up to 64 times the
// first limit. The last error fails the test; those before it are logged. For errors that no limit excuses, try must
// fail the test itself.
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
