package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// writeUnnamed writes a file that gets its name when it is complete. A file of
// that name goes first where it is to be replaced: until the new one is there, a
// reader finds none, as it does without a cache.
func writeUnnamed(name string, data []byte, replace bool) error {
	f, err := os.OpenFile(filepath.Dir(name), os.O_WRONLY|unix.O_TMPFILE, 0o600)
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, fs.ErrNotExist): // kernels and file systems that do not know the flag
		return errors.ErrUnsupported
	case err != nil:
		return err // ErrUnsupported, for one
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if replace {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// os.Link would make a name for the symbolic link in /proc.
	err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.AT_FDCWD, name,
		unix.AT_SYMLINK_FOLLOW)
	switch {
	case replace && errors.Is(err, fs.ErrExist):
		return nil // another job has stored its own between
	case errors.Is(err, fs.ErrNotExist):
		return errors.ErrUnsupported // no /proc
	case err != nil:
		return &os.LinkError{Op: "linkat", Old: "a file without a name", New: name, Err: err}
	}
	return nil
}
