//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLimitHint(t *testing.T) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	err := fmt.Errorf("start: %w", os.NewSyscallError("pipe2", unix.EMFILE))
	for _, want := range []string{fmt.Sprintf("the limit is %d open files", r.Max), "ulimit -n"} {
		if hint := LimitHint(err); !strings.Contains(hint, want) {
			t.Errorf("%q is missing in %q", want, hint)
		}
	}
	if hint := LimitHint(unix.EAGAIN); !strings.Contains(hint, "processes and threads") {
		t.Errorf("EAGAIN: %q", hint)
	}
	if hint := LimitHint(errors.New("another")); hint != "" {
		t.Errorf("no limit: %q", hint)
	}
}
