package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"time"
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
