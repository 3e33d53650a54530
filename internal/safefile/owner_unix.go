//go:build unix

package safefile

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags are those with which an open waits for no other process.
const openFlags = syscall.O_NONBLOCK | syscall.O_NOCTTY

// ownedHere returns an error unless a file belongs to this user or to root.
func ownedHere(name string, info fs.FileInfo) error {
	return owned(name, info.Sys().(*syscall.Stat_t).Uid, os.Geteuid())
}
