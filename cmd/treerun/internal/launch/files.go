//go:build linux

package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// rankStdin returns the stdin of the rank that reads it. It is a file or a pipe itself. A terminal cannot be passed on,
// because the process group of the rank is not in the foreground; so a goroutine copies from it, for the life of this
// process.
func rankStdin(stdin *os.File) (*os.File, error) {
	if !term.IsTerminal(int(stdin.Fd())) {
		return stdin, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(w, readable(stdin)) // ends with the terminal, ^D or the rank
		_ = w.Close()
	}()
	return r, nil
}

// readable returns stdin for this process, which a terminal must not stop: a read from the background fails with EIO,
// and so ends the input of the rank.
func readable(stdin *os.File) *os.File {
	if term.IsTerminal(int(stdin.Fd())) {
		signal.Ignore(syscall.SIGTTIN)
	}
	return stdin
}

// rankFolder returns the name of the folder for the output of a rank, rank.007, with as many digits as the highest rank
// has.
func rankFolder(rank, size int) string {
	return fmt.Sprintf("rank.%0*d", len(strconv.Itoa(size-1)), rank)
}

// rawFile creates the file for one output of a rank: DIR/rank.007/stdout. Where the rank has had another process, more
// means that what follows is appended. DIR may be a link, because the user names it,
// and may be shared with others: so nothing below it may lead out of it, and the folder belongs to the user or to DIR's
// owner.
func rawFile(dir, folder, name string, more bool) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("--output-dir: %w", err)
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	if more {
		return top.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_APPEND, 0)
	}
	f, err := createIn(top, folder, name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w (hint: remove it, or give another --output-dir)",
			filepath.Join(dir, folder, name), cmdline.Cause(err))
	}
	return f, nil
}

func createIn(top *os.Root, folder, name string) (*os.File, error) {
	if err := top.Mkdir(folder, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dirInfo, err := top.Stat(".")
	if err != nil {
		return nil, err
	}
	folderInfo, err := top.Lstat(folder)
	if err != nil {
		return nil, err
	}
	owner := func(i fs.FileInfo) int { return int(i.Sys().(*syscall.Stat_t).Uid) }
	switch {
	case !folderInfo.IsDir():
		return nil, fmt.Errorf("%s is not a folder", folder)
	case owner(folderInfo) != os.Geteuid() && owner(folderInfo) != owner(dirInfo):
		return nil, fmt.Errorf("%s belongs to user %d", folder, owner(folderInfo))
	}
	// The file is a new one: an existing link or FIFO, for example, is not opened.
	path := filepath.Join(folder, name)
	if err := top.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return top.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}
