//go:build linux

package osys

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Address returns the address of b in this process.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// ReadMemory fills b from an address of process pid. The error is that of the system, ESRCH when there is no such
// process. The kernel checks that the address is valid and that this process may trace that one.
func ReadMemory(pid int, address uint64, b []byte) error {
	return copyMemory(unix.SYS_PROCESS_VM_READV, "process_vm_readv", pid, address, b)
}

// WriteMemory writes b to an address of process pid; see ReadMemory. The caller ensures that the number still belongs
// to that process.
func WriteMemory(pid int, address uint64, b []byte) error {
	return copyMemory(unix.SYS_PROCESS_VM_WRITEV, "process_vm_writev", pid, address, b)
}

func copyMemory(call uintptr, name string, pid int, address uint64, b []byte) error {
	for len(b) > 0 {
		local := unix.Iovec{Base: unsafe.SliceData(b)}
		local.SetLen(len(b))
		remote := unix.RemoteIovec{Base: uintptr(address), Len: len(b)}
		n, _, errno := unix.RawSyscall6(call, uintptr(pid),
			uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("%s of %d bytes at %#x of process %d: %w", name, len(b), address, pid, errno)
		case n == 0 || n > uintptr(len(b)):
			return fmt.Errorf("%s of %d bytes at %#x of process %d: moved %d", name, len(b), address, pid, n)
		}
		b, address = b[n:], address+uint64(n)
	}
	return nil
}

// OpenProcess returns a descriptor of process pid, which never refers to another process, even if the number is reused.
func OpenProcess(pid int) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd_open of process %d: %w", pid, err)
	}
	return fd, nil
}

// Ended reports whether the process of a descriptor has ended, waited for or not: none of its threads runs any more.
// Until its parent waits for it, its number is not reused. An error means that the system did not answer, and nothing
// about the process.
func Ended(fd int) (bool, error) {
	fds, now := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, unix.Timespec{}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&now)),
			0, 0, 0)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return false, fmt.Errorf("ppoll of a process: %w", errno)
		}
		return n > 0, nil
	}
}

// LetSiblingsRead allows the descendants of this process's parent to read its
// memory where the kernel allows that to a process's own ancestors only (Yama,
// ptrace_scope 1). Elsewhere it changes nothing.
func LetSiblingsRead() {
	_ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(os.Getppid()), 0, 0, 0)
}
