package output

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/pipe"
)

// readBytes is how much is read from a rank at a time.
const readBytes = 16 << 10

// Options say how a rank's output is shown and kept.
type Options struct {
	Tag    bool // put "[rank] " in front of each line
	Single bool // there is only one rank: without tags, hold nothing back

	Raw       *os.File    // also gets the bytes as they came, unless nil
	RawFailed func(error) // called, at most twice, when writing to Raw fails
}

// Stream carries one output stream of one rank to a Sink.
type Stream struct {
	Tail Tail // the last that the rank wrote

	src     *pipe.Reader
	cut     cutter
	dst     *Sink
	options Options
	done    chan struct{}
}

// NewStream returns a Stream that reads src and shows it on dst. The Stream
// owns src and options.Raw; Run closes them at its end, or Discard.
func NewStream(src *pipe.Reader, dst *Sink, rank int, options Options) *Stream {
	s := &Stream{src: src, dst: dst, options: options, done: make(chan struct{})}
	switch {
	case options.Tag:
		s.cut = &tagged{tag: fmt.Sprintf("[%d] ", rank), terminal: dst.dev.terminal}
	case options.Single:
		s.cut = &whole{}
	default:
		s.cut = &whole{hold: FlushAfter}
	}
	return s
}

// Run copies until the end of the stream. The end is where no process has it
// open any more, or what Finish says.
func (s *Stream) Run() {
	defer close(s.done)
	defer s.close()
	buf := make([]byte, readBytes)
	var out []byte
	for {
		var deadline time.Time
		if at, ok := s.cut.due(); ok {
			deadline = at
		}
		n, err := s.src.ReadUntil(buf, deadline)
		switch {
		case err == nil:
			now := time.Now()
			s.keep(buf[:n], now)
			out = s.cut.add(out[:0], buf[:n], now)
		case errors.Is(err, os.ErrDeadlineExceeded):
			out = s.cut.flush(out[:0])
		default: // io.EOF; any other error ends a stream as well
			s.dst.write(s.cut.end(out[:0]))
			return
		}
		if !s.dst.write(out) {
			out = nil
		}
	}
}

// Finish makes Run end when it has copied what has been written until now.
func (s *Stream) Finish() { s.src.Finish() }

// Done is closed when Run has ended and everything has been written.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Discard closes a Stream whose Run is never called.
func (s *Stream) Discard() { s.close() }

func (s *Stream) keep(b []byte, now time.Time) {
	s.Tail.add(b, now)
	if s.options.Raw == nil {
		return
	}
	if _, err := s.options.Raw.Write(b); err != nil {
		s.rawFailed(err)
		_ = s.options.Raw.Close()
		s.options.Raw = nil
	}
}

func (s *Stream) close() {
	_ = s.src.Close() // only read from
	if s.options.Raw != nil {
		if err := s.options.Raw.Close(); err != nil {
			s.rawFailed(err)
		}
	}
}

func (s *Stream) rawFailed(err error) {
	s.options.RawFailed(fmt.Errorf("keep what a rank prints: %w", err))
}
