package exitcode

import (
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestOf(t *testing.T) {
	inner := Errorf(NotFound, "no %s: %w", "hello", fs.ErrNotExist)
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{fs.ErrExist, Internal},
		{inner, NotFound},
		{fmt.Errorf("start: %w", inner), NotFound},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("Of(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	if got := Signal(syscall.SIGSEGV); got != 139 {
		t.Errorf("Signal(SIGSEGV) = %d, want 139", got)
	}
}
