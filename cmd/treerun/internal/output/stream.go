package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

// readBytes is the size of one read from a rank.
const readBytes = 16 << 10

// Source is the input of a Stream: the pipe of a rank on this host, or a connection to another. When no data has come
// by the deadline, Read returns a timeout (os.IsTimeout).
type Source interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

// Options describe how a rank's output is shown and kept.
type Options struct {
	Tag    Tag
	Host   string   // of the rank
	Hidden bool     // do not show it
	Single bool     // there is only one rank: without tags, hold nothing back
	Raw    *os.File // also receives the bytes unchanged, unless nil
}

// Tag says what stands in front of each line, in brackets.
type Tag struct {
	Rank, Host bool
	Time       bool // at which the line began to arrive
}

// ParseTag returns the Tag of a list, as in rank,host,time. "true" stands for rank, and "false" for none.
func ParseTag(list string) (t Tag, err error) {
	switch list {
	case "true":
		return Tag{Rank: true}, nil
	case "false":
		return Tag{}, nil
	}
	for word := range strings.SplitSeq(list, ",") {
		switch word {
		case "rank":
			t.Rank = true
		case "host":
			t.Host = true
		case "time":
			t.Time = true
		default:
			return Tag{}, errors.New("want a list of rank, host and time, as in rank,time; or false")
		}
	}
	return t, nil
}

// Stream carries one output stream of one rank to a Sink.
type Stream struct {
	Tail Tail // the end of the rank's output

	cut     cutter
	dst     *Sink
	options Options
}

// NewStream returns a Stream that shows the output of a rank on dst. The Stream owns options.Raw; Run closes it at its
// end, or Discard.
func NewStream(dst *Sink, rank int, options Options) *Stream {
	s := &Stream{dst: dst, options: options}
	switch {
	case options.Tag != Tag{}:
		s.cut = newTagged(dst, rank, options)
	case options.Single:
		s.cut = &unchanged{}
	default:
		s.cut = &unchanged{hold: FlushAfter, limit: MaxLine}
	}
	return s
}

// Run copies until the end of src, and closes it. When it returns, all data has been written.
func (s *Stream) Run(src Source) {
	defer s.Discard()
	defer src.Close() // only read from
	buf := make([]byte, readBytes)
	var out []byte
	var deadline time.Time
	for {
		if at := s.cut.due(); at != deadline {
			deadline = at
			if earliest := time.Now().Add(time.Millisecond); !at.IsZero() && at.Before(earliest) {
				at = earliest // a slow reader delayed this: data that has come meanwhile is read first
			}
			_ = src.SetReadDeadline(at) // fails on a closed file only
		}
		n, err := src.Read(buf)
		switch {
		case n > 0:
			s.record(buf[:n])
			out = s.cut.add(out[:0], buf[:n], time.Now())
		case os.IsTimeout(err):
			out = s.cut.flush(out[:0], time.Now())
		case err != nil: // io.EOF; any other error ends a stream as well
			if errors.Is(err, syscall.EIO) { // of the system, and not of a host that was lost
				s.dst.fail(fmt.Errorf("read the output of a rank: %w", err))
			}
			if !s.options.Hidden {
				s.dst.write(s.cut.end(out[:0]), s, false)
			}
			return
		}
		if s.options.Hidden {
			continue
		}
		if !s.dst.write(out, s, s.cut.open()) {
			out = nil
		}
	}
}

func (s *Stream) record(b []byte) {
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

// Discard ends a Stream whose Run is never called.
func (s *Stream) Discard() {
	if s.options.Raw != nil {
		if err := s.options.Raw.Close(); err != nil {
			s.rawFailed(err)
		}
	}
}

func (s *Stream) rawFailed(err error) {
	s.dst.fail(fmt.Errorf("write the output of a rank to its file: %w", err))
}

// tailBytes is the length of the end of a stream that is kept.
const tailBytes = 8 << 10

// Tail keeps the end of the data written to it. Its methods may be called concurrently.
type Tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool // there was data before text
	last time.Time
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		for extra < len(t.text) && extra < len(t.text)-tailBytes+utf8.UTFMax && !utf8.RuneStart(t.text[extra]) {
			extra++ // a character that is cut goes whole
		}
		t.text, t.cut = append(t.text[:0], t.text[extra:]...), true
	}
	return len(b), nil
}

// Last returns when the stream was last written to, and whether it was.
func (t *Tail) Last() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, len(t.text) > 0
}

// Lines returns the last lines of the stream, at most limit, without their ends. Of a progress line only the last state
// counts, and the first line has "..." in front where its beginning is not kept.
func (t *Tail) Lines(limit int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimRight(t.text, "\r\n")
	if len(text) == 0 || limit <= 0 {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	if t.cut {
		lines[0] = "..." + lines[0]
	}
	if len(lines) > limit {
		lines = lines[len(lines)-limit:]
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	return lines
}
