package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Store writes a file, whole or not at all, in place of one that was there, and
// makes the folders above it. Nobody but the user may read it. A process that is
// killed meanwhile leaves nothing, where the file system knows files without a name.
func Store(name string, data []byte) error { return write(name, data, true) }

// Create is like Store, but leaves a file alone that was there: errors.Is finds
// fs.ErrExist.
func Create(name string, data []byte) error { return write(name, data, false) }

func write(name string, data []byte, replace bool) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	err := writeUnnamed(name, data, replace)
	if errors.Is(err, errors.ErrUnsupported) {
		err = writeNamed(name, data, replace)
	}
	return err
}

const (
	temporary  = ".treerun-" // how the names of temporary files begin
	staleAfter = time.Minute // then a temporary file is nobody's any more
)

// writeNamed writes a temporary file and gives it its name. What killed processes
// have left of theirs is removed.
func writeNamed(name string, data []byte, replace bool) error {
	dir := filepath.Dir(name)
	stale, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
	if err != nil {
		return err
	}
	for _, old := range stale {
		if info, err := os.Lstat(old); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(old) // another process may do the same
		}
	}
	tmp, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil && replace {
		if err = os.Rename(tmp.Name(), name); err == nil {
			return nil
		}
	} else if err == nil {
		err = os.Link(tmp.Name(), name)
	}
	return errors.Join(err, os.Remove(tmp.Name()))
}

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
