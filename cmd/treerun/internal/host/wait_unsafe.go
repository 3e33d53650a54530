//go:build linux

package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is siginfo_t as filled by waitid.
type siginfo struct {
	_     [3]int32 // signo, errno and code, in the order of unix.Siginfo
	child struct {
		_      [0]uintptr // aligns it
		pid    int32
		uid    uint32
		status int32
	}
	_ [128]byte // room: siginfo_t has 128 bytes
}

// peek reports whether a child has ended, and its status. The child stays a zombie: its number is its own until a wait.
// Where waitid fails, peek waits for the child.
func peek(pid int) (status unix.WaitStatus, ended bool) {
	var info siginfo
	raw := (*unix.Siginfo)(unsafe.Pointer(&info))
	for {
		err := unix.Waitid(unix.P_PID, pid, raw, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			got, status := reap(pid)
			return status, got == pid
		}
		if int(info.child.pid) != pid {
			return 0, false
		}
		break
	}
	const exited, dumped = 1, 3 // CLD_EXITED, CLD_DUMPED
	switch raw.Code {
	case exited:
		return unix.WaitStatus(info.child.status&0xff) << 8, true
	case dumped:
		return unix.WaitStatus(info.child.status&0x7f | 0x80), true
	}
	return unix.WaitStatus(info.child.status & 0x7f), true
}
