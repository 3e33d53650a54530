package output

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

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

// device is what a Sink writes to; two Sinks may share it.
type device struct {
	terminal bool

	mu    sync.Mutex
	dirty bool // a progress line stands in the current line of the terminal
}

// Sink writes whole lines of many goroutines to one file.
type Sink struct {
	dev  *device
	file *os.File
	name string

	err    error // the first error; nothing is written after it; guarded by dev.mu
	failed func(error)
}

// OnError sets what is called, once, with the first error of writing. From then
// on the Sink takes everything and drops it. Set it before the Sink is shared.
func (s *Sink) OnError(f func(error)) { s.failed = f }

// write writes lines; it blocks while the reader of the file is slow.
func (s *Sink) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	s.dev.mu.Lock()
	defer s.dev.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.dev.dirty {
		_, s.err = s.file.WriteString(erase)
	}
	s.dev.dirty = s.dev.terminal && lines[len(lines)-1] == '\r'
	if s.err == nil {
		_, s.err = s.file.Write(lines)
	}
	if s.err != nil && s.failed != nil {
		s.failed(fmt.Errorf("write to %s: %w", s.name, s.err))
	}
}

// Printf writes one line of treerun's own, or several at a time. The newline at
// the end is added.
func (s *Sink) Printf(format string, args ...any) {
	s.write(fmt.Appendf(nil, format+"\n", args...))
}
