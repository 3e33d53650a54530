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

// needAddresses is how many bytes of addresses a launcher, an agent or a rank in Go is let run with: the Go runtime
// reserves 0.8 to 1.3 GB before main begins, and the C library 64 MiB for each of the first threads. Under 1.5 GB
// jobs of two ranks were seen to die with pages of text.
const needAddresses = 2 << 30

// CheckAddresses returns an error where this process may not have the addresses that a launcher, an agent or a rank
// needs; ranks have the same limit. It is for the begin, before the threads are there.
func CheckAddresses() error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil || r.Cur >= needAddresses {
		return nil
	}
	return fmt.Errorf("the limit is %d KiB of addresses for each process, and treerun and its ranks need %d each, "+
		"few of them with memory (ulimit -v unlimited or LimitAS= raises it; a control group limits memory)", r.Cur>>10,
		needAddresses>>10)
}
