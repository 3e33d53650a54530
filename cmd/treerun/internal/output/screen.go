package output

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// lineTimeout is how long treerun waits for a line of its own to be written.
const lineTimeout = 200 * time.Millisecond

// Screen is the standard output and error of treerun itself. When both are the
// same terminal or file, lines of one never break lines of the other.
type Screen struct {
	Out, Err *Sink
}

// NewScreen returns a Screen over two open files, which stay the caller's.
func NewScreen(stdout, stderr *os.File) *Screen {
	out := &device{terminal: term.IsTerminal(int(stdout.Fd()))}
	err := &device{terminal: term.IsTerminal(int(stderr.Fd()))}
	a, aerr := stdout.Stat()
	b, berr := stderr.Stat()
	if aerr == nil && berr == nil && os.SameFile(a, b) {
		err = out
	}
	return &Screen{
		Out: &Sink{dev: out, file: stdout, name: "stdout"},
		Err: &Sink{dev: err, file: stderr, name: "stderr"},
	}
}

// Flushed returns a channel that is closed when both files have taken what was
// printed before the call; never, if nobody reads one of them.
func (s *Screen) Flushed() <-chan struct{} {
	done := make(chan struct{})
	out, err := s.Out.Flushed(), s.Err.Flushed()
	go func() {
		<-out
		<-err
		close(done)
	}()
	return done
}

// GiveUp drops what ranks have printed and what they print from now on, where
// it has not been written yet, so that nobody waits for a reader any more.
// Lines of treerun's own are still written if their file takes them.
func (s *Screen) GiveUp() {
	s.Out.dev.giveUp()
	s.Err.dev.giveUp()
}

// Sink writes whole lines of many goroutines to one file.
type Sink struct {
	dev  *device
	file *os.File
	name string

	err     error // the first error, nothing is written after it; of the goroutine that writes
	failed  func(error)
	dropped int // bytes that GiveUp has dropped; guarded by dev.mu, as is failed
}

// OnError sets what is called, once, with the first error of writing that comes
// after this call. From such an error on the Sink takes everything and drops it.
func (s *Sink) OnError(f func(error)) {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	s.failed = f
}

// Name returns "stdout" or "stderr".
func (s *Sink) Name() string { return s.name }

// Dropped returns how many bytes GiveUp has dropped until now.
func (s *Sink) Dropped() int {
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	return s.dropped
}

// Flushed returns a channel that is closed when the file has taken what was
// printed before the call; never, if nobody reads it.
func (s *Sink) Flushed() <-chan struct{} {
	done := make(chan struct{})
	s.dev.add(&piece{sink: s, own: true, done: done})
	return done
}

// Printf writes one line of treerun's own, or several at a time. The newline at
// the end is added. It waits until they are written, but not for a reader who
// does not read: see Flushed.
func (s *Sink) Printf(format string, args ...any) {
	p := &piece{sink: s, own: true, text: fmt.Appendf(nil, format+"\n", args...), done: make(chan struct{})}
	if s.dev.add(p) {
		return // somebody has waited in vain already
	}
	select {
	case <-p.done:
	case <-time.After(lineTimeout):
		s.dev.setSlow()
	}
}

// write writes lines of a rank. It returns when the file has taken them, or
// they are dropped: it blocks while the reader of the file is slow. Where it
// reports false, the file may still be taking them: lines must not be changed.
func (s *Sink) write(lines []byte) (taken bool) {
	if len(lines) == 0 {
		return true
	}
	p := &piece{sink: s, text: lines, done: make(chan struct{})}
	s.dev.add(p)
	<-p.done
	return !p.lost
}

// put writes what a piece holds. Only the goroutine of the device calls it.
func (s *Sink) put(text []byte) {
	if s.err != nil || len(text) == 0 {
		return
	}
	if s.dev.dirty {
		_, s.err = s.file.WriteString(erase)
	}
	s.dev.dirty = s.dev.terminal && text[len(text)-1] == '\r'
	if s.err == nil {
		_, s.err = s.file.Write(text)
	}
	if s.err == nil {
		return
	}
	s.dev.mu.Lock()
	failed := s.failed
	s.dev.mu.Unlock()
	if failed != nil {
		failed(fmt.Errorf("write to %s: %w", s.name, s.err))
	}
}
