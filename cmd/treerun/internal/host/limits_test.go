package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStatus(t *testing.T) {
	text := "Name:\tUid: 7\nUid:\t1000\t0\t0\t0\nGroups:\t\nThreads:\t12\nSigQ:\t0/7\n"
	if uid, threads := parseStatus(text); uid != 1000 || threads != 12 {
		t.Errorf("user %d, %d threads", uid, threads)
	}
	if uid, threads := parseStatus(""); uid != -1 || threads != 0 {
		t.Errorf("nothing: user %d, %d threads", uid, threads)
	}
	// This process is seen, with the threads that it has.
	if n := tasksOf(os.Getuid()); n < 2 {
		t.Errorf("%d threads of our user", n)
	}
}

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
