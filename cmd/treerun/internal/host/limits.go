package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// LimitHint says which limit of this host an error is about, and what to do. It is
// for the end of the error's text, and empty where no limit is known.
func LimitHint(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		var r unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &r) // Go has raised it as far as it may
		return fmt.Sprintf(" (the limit is %d open files for each process: treerun takes 20, and 4 for each rank; "+
			"ulimit -n, LimitNOFILE= or docker --ulimit nofile raises it)", r.Max)
	case errors.Is(err, unix.ENFILE):
		return " (the whole system's limit: see /proc/sys/fs/file-max)"
	case errors.Is(err, unix.EAGAIN):
		return " (no more processes and threads: ulimit -u, LimitNPROC= or docker --ulimit nproc raises the limit of this " +
			"user, TasksMax= or docker --pids-limit that of the control group)"
	}
	return ""
}
