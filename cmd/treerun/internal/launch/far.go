package launch

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// source is what a rank on another host prints, as it comes.
type source struct {
	taken func(bytes int) // tells the host that there is room again
	wake  chan struct{}

	mu    sync.Mutex
	data  []byte // at most wire.Window bytes, as the host knows
	ended bool
	owing int // bytes that were read and not yet told
}

func newSource(taken func(bytes int)) *source {
	return &source{taken: taken, wake: make(chan struct{}, 1)}
}

// push takes what has come; nothing is the end. What a host sends beyond what
// there was room for is dropped.
func (s *source) push(data []byte) {
	s.mu.Lock()
	if len(data) == 0 {
		s.ended = true
	} else if len(s.data)+len(data) <= wire.Window+wire.Chunk {
		s.data = append(s.data, data...)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ReadUntil is as output.Source wants it.
func (s *source) ReadUntil(p []byte, deadline time.Time) (int, error) {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	for {
		if n, err := s.take(p); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-s.wake:
		case <-late:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (s *source) take(p []byte) (int, error) {
	s.mu.Lock()
	n := copy(p, s.data)
	s.data = append(s.data[:0], s.data[n:]...)
	ended := s.ended
	s.owing += n
	owing := 0
	if s.owing >= wire.Window/4 && !ended {
		owing, s.owing = s.owing, 0
	}
	s.mu.Unlock()
	if owing > 0 {
		s.taken(owing)
	}
	if n == 0 && ended {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing.
func (s *source) Close() error { return nil }

// input carries our stdin to a rank 0 on another host.
type input struct {
	mu   sync.Mutex
	room *sync.Cond
	away int // bytes under way
}

// newInput begins to read stdin. It reads ahead of rank 0.
func newInput(stdin *os.File, send func(*wire.Input)) *input {
	i := new(input)
	i.room = sync.NewCond(&i.mu)
	var r io.Reader = stdin
	if term.IsTerminal(int(stdin.Fd())) {
		// A read from the background then fails with EIO instead of stopping us.
		signal.Ignore(syscall.SIGTTIN)
		r = foreground{stdin}
	}
	go i.copy(r, send)
	return i
}

// copy ends with its reader; else with this process.
func (i *input) copy(r io.Reader, send func(*wire.Input)) {
	for {
		i.waitForRoom()
		buf := make([]byte, wire.Chunk)
		n, err := r.Read(buf)
		if n > 0 {
			i.mu.Lock()
			i.away += n
			i.mu.Unlock()
			send(&wire.Input{Data: buf[:n]})
		}
		if err != nil {
			send(&wire.Input{})
			return
		}
	}
}

func (i *input) waitForRoom() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.away > wire.Window-wire.Chunk {
		i.room.Wait()
	}
}

// consumed notes what rank 0 has got.
func (i *input) consumed(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away -= n
	i.room.Broadcast()
}
