package launch

import (
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
	// A read from the background then fails with EIO instead of stopping us.
	signal.Ignore(syscall.SIGTTIN)
	go func() {
		_, _ = io.Copy(w, foreground{stdin}) // ends with the terminal, ^D or rank 0
		_ = w.Close()
	}()
	return r, nil
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

// rawFile creates the file for what a rank prints: DIR/rank.007/stdout.
func rawFile(dir, folder, name string) (*os.File, error) {
	dir = filepath.Join(dir, folder)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, name))
}
