//go:build linux

package host

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// open returns a Pipe and the other side, for a pipe and for a socket.
func open(t *testing.T, kind string) (*Pipe, *os.File) {
	t.Helper()
	var fds [2]int
	var err error
	if kind == "pipe" {
		err = unix.Pipe2(fds[:], unix.O_CLOEXEC)
	} else {
		fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewPipe(fds[0], kind)
	if err != nil {
		t.Fatal(err)
	}
	w := os.NewFile(uintptr(fds[1]), "other side")
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func write(t *testing.T, w io.Writer, b []byte) {
	t.Helper()
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

func TestReadToTheEnd(t *testing.T) {
	for _, kind := range []string{"pipe", "socket"} {
		r, w := open(t, kind)
		write(t, w, []byte("all of it"))
		w.Close()
		if got, err := io.ReadAll(r); string(got) != "all of it" || err != nil {
			t.Errorf("%s: read %q, %v", kind, got, err)
		}
	}
}

// The data written before Finish is read, then comes the end, although the other side stays open; it does not matter
// whether a Read waits meanwhile.
func TestFinish(t *testing.T) {
	for _, kind := range []string{"pipe", "socket"} {
		for _, waiting := range []bool{false, true} {
			r, w := open(t, kind)
			want := bytes.Repeat([]byte("x"), 40_000)
			write(t, w, want)
			type result struct {
				b   []byte
				err error
			}
			done := make(chan result)
			read := func() {
				b, err := io.ReadAll(r)
				done <- result{b, err}
			}
			if waiting {
				go read()
				time.Sleep(10 * time.Millisecond)
				r.Finish()
			} else {
				r.Finish()
				go read()
			}
			if got := <-done; !bytes.Equal(got.b, want) || got.err != nil {
				t.Errorf("%s, waiting %v: read %d bytes, %v; want %d", kind, waiting, len(got.b), got.err, len(want))
			}
		}
	}
}

// A process that never stops writing does not hold up the reader.
func TestFinishBeatsEndlessWriter(t *testing.T) {
	r, w := open(t, "pipe")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1024)
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	r.Finish()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Error(err)
	}
	r.Close()
	<-stopped
}

func readUntil(r *Pipe, buf []byte, deadline time.Time) (int, error) {
	if err := r.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return r.Read(buf)
}

func TestReadUntil(t *testing.T) {
	r, w := open(t, "pipe")
	buf := make([]byte, 8)
	if n, err := readUntil(r, buf, time.Now().Add(5*time.Millisecond)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("nothing there: %d, %v", n, err)
	}
	// Data that is present is read, even long after the deadline.
	write(t, w, []byte("late"))
	if n, err := readUntil(r, buf, time.Now().Add(-time.Second)); string(buf[:n]) != "late" || err != nil {
		t.Fatalf("after the deadline: %q, %v", buf[:n], err)
	}
	// A deadline that has passed spoils neither later reads nor Finish.
	write(t, w, []byte("abc"))
	if n, err := r.Read(buf); string(buf[:n]) != "abc" || err != nil {
		t.Fatalf("after a deadline: %q, %v", buf[:n], err)
	}
	write(t, w, []byte("def"))
	r.Finish()
	if n, err := readUntil(r, buf, time.Now().Add(time.Hour)); string(buf[:n]) != "def" || err != nil {
		t.Fatalf("after Finish: %q, %v", buf[:n], err)
	}
	if n, err := readUntil(r, buf, time.Now().Add(time.Hour)); n != 0 || err != io.EOF {
		t.Fatalf("at the end: %d, %v", n, err)
	}
}
