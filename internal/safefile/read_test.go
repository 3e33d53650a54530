//go:build linux

package safefile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readers are both ways to read a file, returning the contents alone.
var readers = map[string]func(string, int64) ([]byte, error){
	"named": func(name string, limit int64) ([]byte, error) { return readNamed(name, limit, 100*time.Millisecond) },
	"owned": func(name string, limit int64) ([]byte, error) {
		data, _, err := ReadOwned(name, limit)
		return data, err
	},
}

// within fails the test when f takes longer than any call here may.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s has not returned", what)
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRegularFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	link := name + "-link" // as Kubernetes mounts secrets
	if err := os.Symlink(name, link); err != nil {
		t.Fatal(err)
	}
	for how, read := range readers {
		for _, file := range []string{name, link} {
			if data, err := read(file, 4); err != nil || string(data) != "text" {
				t.Errorf("%s: %q, %v", how, data, err)
			}
		}
		if data, err := read(name, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
			t.Errorf("%s: %q, %v of a file that is too large", how, data, err)
		}
		if _, err := read(name+"-none", 3); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v where there is no file", how, err)
		}
		// The kernel reports a size of 0 for this file.
		if data, err := read("/proc/self/status", 3); err == nil {
			t.Errorf("%s: %d bytes of a file without a length", how, len(data))
		}
	}
	if _, info, err := ReadOwned(name, 4); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for how, read := range readers {
		for name, want := range map[string]string{
			fifo(t):     "pipe",
			"/dev/zero": "no regular file, but a device",
			"/dev/null": "no regular file, but a device",
			dir:         "no regular file, but a folder",
			socket:      "no such device or address",
		} {
			within(t, how+" "+name, func() {
				if data, err := read(name, 100); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s: %d bytes, %v, want an error with %q", how, name, len(data), err, want)
				}
			})
		}
	}
}

// A pipe that a user has named is read while a writer writes to it.
func TestPipes(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR, 0) // does not wait for a reader
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, c := range []struct {
		write string
		ends  bool
		want  string
	}{{"text", true, ""}, {"text", false, "did not end"}, {"", false, "did not end"},
		{strings.Repeat("x", 101), false, "more than 100"}} {
		name := fifo(t)
		w := open(name)
		if _, err := w.WriteString(c.write); err != nil {
			t.Fatal(err)
		}
		if c.ends {
			time.AfterFunc(20*time.Millisecond, func() { w.Close() })
		}
		within(t, name, func() {
			data, err := readers["named"](name, 100)
			if c.want == "" && (err != nil || string(data) != c.write) || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%+v: %q, %v", c, data, err)
			}
		})
		within(t, name, func() {
			if data, err := readers["owned"](name, 100); err == nil {
				t.Errorf("%q was read where only a regular file will do", data)
			}
		})
	}
}

func TestOwner(t *testing.T) {
	const me, other = 1000, 1001
	for owner, ok := range map[uint32]bool{me: true, 0: true, other: false} {
		if err := owned("file", owner, me); (err == nil) != ok {
			t.Errorf("owner %d: %v", owner, err)
		}
	}
	if err := owned("file", other, 0); err == nil {
		t.Error("root goes by another user's file")
	}
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if data, _, err := ReadOwned(name, 100); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
		t.Errorf("%q, %v of another user's file", data, err)
	}
	if data, err := Read(name, 100); err != nil || string(data) != "text" {
		t.Errorf("%q, %v: users may name files of others", data, err)
	}
}

// Create never replaces an existing file.
func TestCreate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep", "file")
	if err := Create(name, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := Create(name, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v where there is a file", err)
	}
	data, info, err := ReadOwned(name, 100)
	if err != nil || string(data) != "first" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v", data, info, err)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want one file", entries, err)
	}
}

// Store replaces any file of the name, also a planted FIFO.
func TestStoreReplaces(t *testing.T) {
	name := fifo(t)
	within(t, "Store", func() {
		if err := Store(name, []byte("text")); err != nil {
			t.Error(err)
		}
	})
	if data, _, err := ReadOwned(name, 100); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
}
