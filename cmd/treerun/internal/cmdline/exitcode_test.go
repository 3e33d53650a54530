package cmdline

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestExitCode(t *testing.T) {
	inner := Errorf(ExitNotFound, "no %s: %w", "hello", fs.ErrNotExist)
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{fs.ErrExist, ExitInternal},
		{inner, ExitNotFound},
		{fmt.Errorf("start: %w", inner), ExitNotFound},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("ExitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	if got := SignalCode(syscall.SIGSEGV); got != 139 {
		t.Errorf("SignalCode(SIGSEGV) = %d, want 139", got)
	}
}
