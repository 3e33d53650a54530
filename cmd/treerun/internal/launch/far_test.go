package launch

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// What comes from another host is read as it came; the host is told in time that
// there is room again, and its end is the end.
func TestSource(t *testing.T) {
	told := 0
	s := newSource(func(n int) { told += n })
	if _, err := s.ReadUntil(make([]byte, 10), time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing there: %v", err)
	}
	want := strings.Repeat("0123456789abcdef", wire.Window/16)
	go func() {
		for i := 0; i < len(want); i += wire.Chunk {
			s.push([]byte(want[i : i+wire.Chunk]))
		}
		s.push(nil)
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
	if told > wire.Window {
		t.Errorf("told of %d bytes", told)
	}
	for range 10 { // a host that sends without room loses what it sends, and we no memory
		s.push(make([]byte, wire.Chunk))
	}
	if len(s.data) > wire.Window+wire.Chunk {
		t.Errorf("%d bytes are kept", len(s.data))
	}
}

// A frame of a host that is not in the job, whatever its number, is nobody's end.
func TestFrameOfNoHost(t *testing.T) {
	for _, host := range []int{-7, wire.All, 1, 1 << 20} {
		s := &supervisor{
			job: &Job{Trace: func(string, ...any) {}}, parties: []*party{{}}, events: make(chan event, 1),
			quit: make(chan struct{}),
		}
		f, err := wire.Encode(0, &wire.Alive{})
		if err != nil {
			t.Fatal(err)
		}
		f.Host = host
		s.emit(f)
		s.receive(<-s.events)
		if s.parties[0].lost || s.cause.kind != none {
			t.Errorf("a frame of host %d ended the job", host)
		}
	}
}
