//go:build linux

package netconn

import (
	"errors"
	"os"
	"testing"
)

// TestStalled: only a timeout of a connection with large packets gets the hint about them.
func TestStalled(t *testing.T) {
	const hint = ", or " + TooLarge
	other := errors.New("reset")
	for _, c := range []struct {
		jumbo string
		err   error
		want  string
	}{
		{hint, os.ErrDeadlineExceeded, os.ErrDeadlineExceeded.Error() + ": the network between is cut" + hint},
		{"", os.ErrDeadlineExceeded, os.ErrDeadlineExceeded.Error()},
		{hint, other, "reset"}, {"", other, "reset"},
	} {
		if got := Stalled(c.jumbo, c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("Stalled(%q, %v) = %v, want %s", c.jumbo, c.err, got, c.want)
		}
	}
	if err := Stalled(hint, nil); err != nil {
		t.Errorf("Stalled of no error: %v", err)
	}
}
