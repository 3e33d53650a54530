package safefile

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Store writes a file, whole or not at all, in place of one that was there, and
// makes the folders above it. Nobody but the user may read it.
func Store(name string, data []byte) error { return write(name, data, os.Rename) }

// Create is like Store, but leaves a file alone that was there: errors.Is finds
// fs.ErrExist.
func Create(name string, data []byte) error { return write(name, data, os.Link) }

const (
	temporary  = ".treerun-" // how the names of temporary files begin
	staleAfter = time.Minute // then a temporary file is nobody's any more
)

// write writes a temporary file and gives it its name. What processes that were killed
// meanwhile have left of theirs is removed.
func write(name string, data []byte, publish func(temporary, name string) error) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
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
	defer os.Remove(tmp.Name()) // fails where it was renamed
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return publish(tmp.Name(), name)
}
