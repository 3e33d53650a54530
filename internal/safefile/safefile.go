// Package safefile reads files that were cached or that a user has named, and writes files whole or not at all. A FIFO
// without a writer, a device or a file of another user in place of one of these can neither hang a rank nor be
// accepted. It knows nothing of the contents of the files. Only packages of treerun may import it.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pipeTimeout bounds the wait for the writer of a pipe that a user has named.
const pipeTimeout = time.Minute

// Read returns the contents of a file that a user has named: a regular file, or a
// pipe such as the shell's <(command), of at most limit bytes. It returns within a
// minute.
func Read(name string, limit int64) ([]byte, error) { return readNamed(name, limit, pipeTimeout) }

// TextOrFile returns a JSON text, or the contents of the file of that name, with the name for errors. If there is no
// such file the error is an fs.ErrNotExist.
func TextOrFile(text string, limit int64) (data []byte, name string, err error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return []byte(text), "", nil
	}
	data, err = Read(text, limit)
	return data, text + ": ", err
}

func readNamed(name string, limit int64, timeout time.Duration) ([]byte, error) {
	f, info, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Mode().Type() != fs.ModeNamedPipe {
		if err := regular(name, info); err != nil {
			return nil, err
		}
		return read(f, info, limit)
	}
	if err := f.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	data, err := read(f, info, limit)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(name, "is a pipe whose writer did not end within %v", timeout)
	case err == nil && len(data) == 0:
		return nil, refuse(name, "is a pipe without a writer")
	}
	return data, err
}

// ReadOwned returns the contents of a file that treerun trusts without knowing its contents in advance, a cache or a
// key: a regular file of this user or of root, of at most limit bytes. The FileInfo is that of the file that was read.
func ReadOwned(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if err := regular(name, info); err != nil {
		return nil, nil, err
	}
	if err := ownedHere(name, info); err != nil {
		return nil, nil, err
	}
	data, err := read(f, info, limit)
	return data, info, err
}

func owned(name string, owner uint32, user int) error {
	if owner == 0 || int(owner) == user {
		return nil
	}
	return refuse(name, "belongs to user %d, not to user %d or root: remove it, or use a folder of your own", owner, user)
}

func refuse(name, format string, args ...any) error {
	return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf(format, args...)}
}

// open never waits for the other end, as open(2) of a FIFO does.
func open(name string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func regular(name string, info fs.FileInfo) error {
	what := "socket"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "pipe"
	case mode&fs.ModeDevice != 0:
		what = "device"
	}
	return refuse(name, "is no regular file, but a %s", what)
}

func read(f *os.File, info fs.FileInfo, limit int64) ([]byte, error) {
	size := info.Size() // 0 for a pipe
	if size <= limit {
		data, err := io.ReadAll(io.LimitReader(f, limit+1)) // it may grow
		if size = int64(len(data)); err != nil || size <= limit {
			return data, err
		}
	}
	return nil, refuse(f.Name(), "has more than %d bytes", limit)
}

// Store writes a file, whole or not at all, replaces an existing one, and makes the folders above it. Only the user may
// read it.
func Store(name string, data []byte) error { return write(name, data, os.Rename) }

// Create is like Store, but leaves an existing file alone: errors.Is finds fs.ErrExist.
func Create(name string, data []byte) error { return write(name, data, os.Link) }

// CanSave reports an error where Save cannot write a file of that name, as without the right to make a file in the
// folder above. It changes nothing.
func CanSave(name string) error {
	name, info, err := target(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder", name)
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	dir := filepath.Dir(name)
	switch info, err := os.Stat(dir); {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	}
	f, err := makeTemporary(name, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Remove removes the file that Save would replace, if there is one: no device, pipe or link.
func Remove(name string) error {
	name, info, err := target(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return os.Remove(name)
}

// target returns the file behind a link, also where there is none yet, and facts about it. Its error is that of
// os.Lstat. Links of the kernel stay what they are: /dev/stdout may be a file that others write to.
func target(name string) (string, fs.FileInfo, error) {
	abs, err := filepath.Abs(name)
	if err == nil && !strings.HasPrefix(abs, "/dev/") && !strings.HasPrefix(abs, "/proc/") {
		if behind, err := filepath.EvalSymlinks(name); err == nil {
			name = behind
		} else if behind, err := os.Readlink(name); err == nil {
			if !filepath.IsAbs(behind) {
				behind = filepath.Join(filepath.Dir(name), behind)
			}
			name = behind
		}
	}
	info, err := os.Lstat(name)
	return name, info, err
}

// makeTemporary makes a temporary file in the folder of a file.
func makeTemporary(name string, mode fs.FileMode) (*os.File, error) {
	tmp := filepath.Join(filepath.Dir(name), fmt.Sprint(temporary, rand.Uint64()))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("%s: no file can be made in its folder: %w", name, pathErr.Err)
	}
	return f, err
}

// Save writes a file that a user has named, whole or not at all, and replaces an existing one, or the one behind a
// link. What is no regular file, such as a device, a pipe or /dev/stdout, gets the data at its end. A new file has the
// usual rights.
func Save(name string, data []byte) error {
	mode := fs.FileMode(0o666)
	name, info, err := target(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, mode)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	case err == nil:
		mode = info.Mode().Perm()
	}
	f, err := makeTemporary(name, mode)
	if err != nil {
		return err
	}
	return fill(f, name, data, os.Rename)
}

// fill writes data into a new temporary file, closes it, and gives it its name. No temporary file is left.
func fill(tmp *os.File, name string, data []byte, give func(from, to string) error) error {
	defer os.Remove(tmp.Name()) // fails where it has been renamed
	_, err := tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return give(tmp.Name(), name)
}

const (
	temporary  = ".treerun-" // how the names of temporary files begin
	staleAfter = time.Minute // after this time a temporary file has no owner any more
)

// write writes a temporary file and gives it its name. It removes temporary files that killed processes have left.
func write(name string, data []byte, give func(from, to string) error) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	stale, err := filepath.Glob(filepath.Join(dir, temporary+"*"))
	if err != nil {
		return err
	}
	for _, old := range stale {
		if strings.Trim(strings.TrimPrefix(filepath.Base(old), temporary), "0123456789") != "" {
			continue // it is not ours
		}
		if info, err := os.Lstat(old); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(old) // another process may do the same
		}
	}
	tmp, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return err
	}
	return fill(tmp, name, data, give)
}
