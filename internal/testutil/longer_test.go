package testutil

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// told counts the errors and log lines of a test.
type counter struct {
	testing.TB
	errors, logs int
}

func (*counter) Helper()                 {}
func (t *counter) Errorf(string, ...any) { t.errors++ }
func (t *counter) Logf(string, ...any)   { t.logs++ }

func TestWith(t *testing.T) {
	for enough, want := range map[time.Duration]counter{
		3: {}, 4: {logs: 1}, 64: {logs: 3}, 192: {logs: 3}, 193: {logs: 3, errors: 1},
	} {
		var got counter
		var limits []time.Duration
		WithLonger(&got, 3, func(limit time.Duration) error {
			limits = append(limits, limit)
			if limit < enough {
				return errors.New("not enough")
			}
			return nil
		})
		if got != want || !slices.Equal(limits, []time.Duration{3, 12, 48, 192}[:min(4, 1+want.logs)]) {
			t.Errorf("needs %d: limits %v, output %+v, want %+v", enough, limits, got, want)
		}
	}
}
