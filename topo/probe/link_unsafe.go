//go:build linux

package probe

import (
	"os"
	"syscall"
	"unsafe"
)

// linkOpen gives the open file that /proc calls open a name. os.Link would make
// a name for the symbolic link in /proc.
func linkOpen(open, name string) error {
	from, err := syscall.BytePtrFromString(open)
	if err != nil {
		return err
	}
	to, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	const here, follow = -100, 0x400 // AT_FDCWD, AT_SYMLINK_FOLLOW
	at := here
	_, _, errno := syscall.Syscall6(syscall.SYS_LINKAT,
		uintptr(at), uintptr(unsafe.Pointer(from)), uintptr(at), uintptr(unsafe.Pointer(to)), follow, 0)
	if errno != 0 {
		return &os.LinkError{Op: "linkat", Old: open, New: name, Err: errno}
	}
	return nil
}
