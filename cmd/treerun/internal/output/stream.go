package output

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// readBytes is how much is read from a rank at a time.
const readBytes = 16 << 10

// Source is where a Stream reads from: the pipe of a rank on this host, or what
// comes from another host.
type Source interface {
	// ReadUntil waits for bytes. It returns a timeout (os.IsTimeout) when nothing
	// has come by the deadline (the zero time: none), and io.EOF at the end.
	ReadUntil(p []byte, deadline time.Time) (int, error)
	Close() error
}

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

	cut     cutter
	dst     *Sink
	options Options
	done    chan struct{}
}

// NewStream returns a Stream that shows what a rank writes on dst. The Stream
// owns options.Raw; Run closes it at its end, or Discard.
func NewStream(dst *Sink, rank int, options Options) *Stream {
	s := &Stream{dst: dst, options: options, done: make(chan struct{})}
	switch {
	case options.Tag:
		s.cut = &tagged{tag: "[" + strconv.Itoa(rank) + "] ", terminal: dst.dev.terminal}
	case options.Single:
		s.cut = &whole{}
	default:
		s.cut = &whole{hold: FlushAfter}
	}
	return s
}

// Run copies until the end of src, and closes it.
func (s *Stream) Run(src Source) {
	defer close(s.done)
	defer s.close()
	defer src.Close() // only read from
	buf := make([]byte, readBytes)
	var out []byte
	for {
		var deadline time.Time
		if at, ok := s.cut.due(); ok {
			deadline = at
		}
		n, err := src.ReadUntil(buf, deadline)
		switch {
		case err == nil:
			s.keep(buf[:n])
			out = s.cut.add(out[:0], buf[:n], time.Now())
		case os.IsTimeout(err):
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

// Done is closed when Run has ended and everything has been written.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Discard closes a Stream whose Run is never called.
func (s *Stream) Discard() { s.close() }

func (s *Stream) keep(b []byte) {
	_, _ = s.Tail.Write(b)
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
	if s.options.Raw != nil {
		if err := s.options.Raw.Close(); err != nil {
			s.rawFailed(err)
		}
	}
}

func (s *Stream) rawFailed(err error) {
	s.options.RawFailed(fmt.Errorf("keep what a rank prints: %w", err))
}
