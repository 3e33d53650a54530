package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// tmpFile is O_TMPFILE of Linux, which package syscall does not have.
const tmpFile = 0x400000 | syscall.O_DIRECTORY

// storeUnnamed writes a file that gets its name when it is complete. A file of
// that name goes first: until the new one is there, a reader measures for
// itself, as it does without a cache.
func storeUnnamed(file string, data []byte) error {
	f, err := os.OpenFile(filepath.Dir(file), os.O_WRONLY|tmpFile, 0o600)
	switch {
	case errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrNotExist): // kernels and file systems that do not know the flag
		return errors.ErrUnsupported
	case err != nil:
		return err // ErrUnsupported, for one
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = linkOpen("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), file)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // another job has stored its own between
	case errors.Is(err, fs.ErrNotExist):
		return errors.ErrUnsupported // no /proc
	}
	return err
}
