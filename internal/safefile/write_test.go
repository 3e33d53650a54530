//go:build linux

package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test binary, with TREERUN_TEST_STORE=FILE, store that file, of one letter many times, until it is
// killed.
func TestMain(m *testing.M) {
	if file := os.Getenv("TREERUN_TEST_STORE"); file != "" {
		os.Stdout.WriteString("storing\n")
		for i := 0; ; i++ {
			if err := Store(file, letters(i)); err != nil {
				os.Stdout.WriteString(err.Error())
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

const size = 10_000

func letters(i int) []byte { return bytes.Repeat([]byte{'a' + byte(i%26)}, size) }

// whole returns an error if the file exists and its contents are not a result of letters.
func whole(file string) error {
	data, _, err := ReadOwned(file, size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(data) != size || !bytes.Equal(data, letters(int(data[0]-'a'))):
		return fmt.Errorf("%d bytes that were not stored", len(data))
	}
	return nil
}

// A process that is killed while it stores leaves a whole file or none, and at most one temporary file.
func TestKilledWhileStoring(t *testing.T) {
	for i := range 20 {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TREERUN_TEST_STORE="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		out.Read(make([]byte, 8)) // it stores
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait() // killed
		left, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
		more, err2 := filepath.Glob(filepath.Join(dir, ".*"))
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if len(left) > 1 || len(more) > 1 {
			t.Fatalf("left behind: %v %v", left, more)
		}
		if err := whole(file); err != nil {
			t.Fatal(err)
		}
	}
}

// A temporary file that a killed process has left is removed once it is old, and not before.
func TestStaleFiles(t *testing.T) {
	dir := t.TempDir()
	old, young, other := filepath.Join(dir, temporary+"1"), filepath.Join(dir, temporary+"2"), filepath.Join(dir, "other")
	for _, name := range []string{old, young, other} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * staleAfter)
	for _, name := range []string{old, other} {
		if err := os.Chtimes(name, past, past); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	for _, text := range []string{"first", "second"} {
		if err := Store(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Fatalf("%q, %v, want %q", got, err, text)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v; want the young one, the other's and the file", entries, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old temporary file is still there: %v", err)
	}
}

// Jobs that store at the same time all succeed, and one whole file remains.
func TestStoreTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "file")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				if err := Store(file, letters(i)); err != nil {
					t.Error(err)
				}
				if err := whole(file); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if data, _, err := ReadOwned(file, size); err != nil || len(data) != size {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want one file", entries, err)
	}
}

// Save replaces regular files, also behind links; devices, pipes and other users' names stay, and nothing else is left.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	mine := in(".treerun-mynotes")
	for _, err := range []error{os.WriteFile(mine, nil, 0o600), os.Chtimes(mine, time.Time{}, time.Now().Add(-time.Hour)),
		os.WriteFile(in("old"), []byte("a longer text than the new one"), 0o640), os.Symlink("old", in("link")),
		os.Symlink("new", in("dangling")), syscall.Mkfifo(in("fifo"), 0o600), os.Mkdir(in("dir"), 0o700),
		Store(in("stored"), nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(in("fifo"))
		read <- string(text)
	}()
	for _, name := range []string{"link", "dangling", "fifo", "fresh"} {
		if err := errors.Join(CanSave(in(name)), Save(in(name), []byte("data"))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := <-read; text != "data" {
		t.Errorf("the pipe got %q", text)
	}
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	usual := 0o666 &^ fs.FileMode(mask)
	for name, mode := range map[string]fs.FileMode{"old": 0o640, "new": usual, "fresh": usual} {
		text, err := os.ReadFile(in(name))
		info, statErr := os.Lstat(in(name))
		if err != nil || string(text) != "data" || statErr != nil || info.Mode() != mode {
			t.Errorf("%s: %q, %v, %v", name, text, err, info)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 9 {
		t.Errorf("%v, %v, want nine entries", entries, err)
	}
	for _, name := range []string{in("dir"), in("none/file"), in("old/file"), "/proc/file"} {
		if CanSave(name) == nil || Save(name, nil) == nil {
			t.Errorf("%s can be saved", name)
		}
	}
	if err := CanSave("/proc/file"); !strings.HasPrefix(err.Error(), "/proc/file: no file can be made in its folder: ") {
		t.Error(err) // root, too, has no right to
	}
}

// Remove removes the regular file that Save would replace.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{os.WriteFile(in("old"), nil, 0o600), os.WriteFile(in("target"), nil, 0o600),
		os.Symlink("target", in("link")), syscall.Mkfifo(in("fifo"), 0o600), os.Mkdir(in("dir"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"old", "link", "fifo", "dir", "none"} {
		if err := Remove(in(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := filepath.Glob(in("*"))
	if want := []string{in("dir"), in("fifo"), in("link")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}
