package launch

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// What comes from another host is read as it came, and its end is the end; so is that
// nothing will come.
func TestSource(t *testing.T) {
	streams := make(chan net.Conn, 1)
	ours, theirs := net.Pipe()
	streams <- ours
	s := &source{streams: streams}
	if _, err := s.ReadUntil(make([]byte, 10), time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing there: %v", err)
	}
	want := strings.Repeat("0123456789abcdef", 10_000)
	go func() {
		if _, err := io.WriteString(theirs, want); err != nil {
			t.Error(err)
		}
		theirs.Close()
	}()
	var got []byte
	buf := make([]byte, 1000)
	for {
		n, err := s.ReadUntil(buf, time.Time{})
		got = append(got, buf[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if string(got) != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	close(streams)
	none := &source{streams: streams}
	if _, err := none.ReadUntil(buf, time.Time{}); err != io.EOF {
		t.Errorf("nothing will come: %v", err)
	}
	if err := errors.Join(s.Close(), none.Close()); err != nil {
		t.Error(err)
	}
}

// A frame of a host that is not in the job, whatever its number, is nobody's end.
func TestFrameOfNoHost(t *testing.T) {
	for _, host := range []int{-7, wire.All, 1, 1 << 20} {
		s := &supervisor{
			job: &Job{Trace: func(string, ...any) {}}, hosts: []*hostState{{}}, events: make(chan event, 1),
			quit: make(chan struct{}),
		}
		f, err := wire.Encode(0, &wire.Alive{})
		if err != nil {
			t.Fatal(err)
		}
		f.Host = host
		s.emit(f, nil)
		s.receive(<-s.events)
		if s.hosts[0].lost || s.cause.kind != none {
			t.Errorf("a frame of host %d ended the job", host)
		}
	}
}
