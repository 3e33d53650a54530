package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// rankStdin returns what rank 0 gets as its stdin. A file or a pipe it gets
// itself. A terminal it may not read, because its process group is not the one
// in front; so a goroutine copies, for as long as this process lives.
func rankStdin(stdin *os.File) (*os.File, error) {
	if !term.IsTerminal(int(stdin.Fd())) {
		return stdin, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = io.Copy(w, readable(stdin)) // ends with the terminal, ^D or rank 0
		_ = w.Close()
	}()
	return r, nil
}

// readable is stdin for this process, which a terminal must not stop.
func readable(stdin *os.File) io.Reader {
	if !term.IsTerminal(int(stdin.Fd())) {
		return stdin
	}
	// A read from the background then fails with EIO instead of stopping us.
	signal.Ignore(syscall.SIGTTIN)
	return foreground{stdin}
}

// foreground reads a terminal whenever this process is in front.
type foreground struct{ tty *os.File }

func (f foreground) Read(p []byte) (int, error) {
	for {
		n, err := f.tty.Read(p)
		front, frontErr := unix.IoctlGetInt(int(f.tty.Fd()), unix.TIOCGPGRP)
		if n > 0 || err == nil || err == io.EOF || frontErr != nil || front == unix.Getpgrp() {
			return n, err
		}
		time.Sleep(time.Second) // in the background: nothing tells when that ends
	}
}

// rankFolder names the folder for what a rank prints, rank.007, with as many
// digits as the highest rank has.
func rankFolder(rank, size int) string {
	return fmt.Sprintf("rank.%0*d", len(strconv.Itoa(size-1)), rank)
}

// Stale returns the names of the folders that an earlier job of another size
// has left in dir, its OutputDir, and that a job of size ranks does not write
// to. Where dir cannot be read there are none: starting the ranks says why.
func Stale(dir string, size int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var stale []string
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "rank.")
		if !ok || !e.IsDir() {
			continue
		}
		rank, err := strconv.ParseUint(digits, 10, 31)
		if err == nil && (int(rank) >= size || e.Name() != rankFolder(int(rank), size)) {
			stale = append(stale, e.Name())
		}
	}
	return stale
}

// rawFile creates the file for what a rank prints: DIR/rank.007/stdout. DIR may be a
// link, because the user names it, and may be shared with others: so neither the folder
// nor the file below it may be a link, and the folder is ours or that of DIR's owner.
func rawFile(dir, folder, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	top, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	sub, err := rankDir(top, folder)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	path := filepath.Join(sub.Name(), name)
	// A FIFO must not make us wait, and nothing is cut off before it is known what it is.
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(sub.Fd()), name, flags, 0o666)
	if err != nil {
		return nil, planted("create", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Nlink > 1) {
		err = &os.PathError{Op: "create", Path: path, Err: errors.New("it is there, and no file of its own")}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// rankDir makes and opens the folder of a rank.
func rankDir(top *os.File, name string) (*os.File, error) {
	path := filepath.Join(top.Name(), name)
	if err := unix.Mkdirat(int(top.Fd()), name, 0o777); err != nil && err != unix.EEXIST {
		return nil, &os.PathError{Op: "mkdir", Path: path, Err: err}
	}
	fd, err := unix.Openat(int(top.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, planted("open", path, err)
	}
	sub := os.NewFile(uintptr(fd), path)
	var above, below unix.Stat_t
	err = errors.Join(unix.Fstat(int(top.Fd()), &above), unix.Fstat(fd, &below))
	if owner := int(below.Uid); err == nil && owner != os.Geteuid() && below.Uid != above.Uid {
		err = fmt.Errorf("it belongs to user %d (hint: another --output-dir)", owner)
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: path, Err: err}, sub.Close())
	}
	return sub, nil
}

// planted is the error for a name in an output folder that could not be opened.
func planted(op, path string, err error) error {
	switch err {
	case unix.ENXIO:
		err = fmt.Errorf("%w (a pipe or a socket is there; hint: remove it, or another --output-dir)", err)
	case unix.ELOOP, unix.ENOTDIR:
		err = fmt.Errorf("%w (a link or a file is there, which is not followed; hint: remove it, or another --output-dir)",
			err)
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}
