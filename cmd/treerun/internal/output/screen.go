package output

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/treerun/treerun/internal/numbers"
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
	out, err := newOutFile(stdout), newOutFile(stderr)
	a, aerr := stdout.Stat()
	b, berr := stderr.Stat()
	if aerr == nil && berr == nil && os.SameFile(a, b) {
		err = out
	}
	return &Screen{
		Out: &Sink{out: out, file: stdout, name: "stdout"},
		Err: &Sink{out: err, file: stderr, name: "stderr"},
	}
}

// DropUnread drops the output of ranks, past and future, where it has not been written yet, so that no stream waits for
// a reader any more. Lines of treerun's own are still written if their file takes them.
func (s *Screen) DropUnread() {
	s.Out.out.drop()
	s.Err.out.drop()
}

// outFile is the file of a Sink; two Sinks may share it. Every write has a goroutine of its own, which blocks while the
// reader does not read. So a slow reader delays the ranks, until DropUnread, and never the supervisor of the job.
type outFile struct {
	terminal bool
	dirty    bool // a progress line stands in the current line of the terminal; of the goroutine that writes

	open *Stream // its last line was too long and continues; of the goroutine that writes

	token    chan struct{} // one token, held during a write
	begun    atomic.Int64  // when the write under way began, in Unix nanoseconds; 0: there is none
	dropping chan struct{} // closed when lines of ranks are dropped
	drop     func()        // closes dropping

	mu   sync.Mutex
	last chan struct{} // closed when treerun's own last line has been written
}

func newOutFile(file *os.File) *outFile {
	f := &outFile{
		terminal: term.IsTerminal(int(file.Fd())), token: make(chan struct{}, 1), dropping: make(chan struct{}),
		last: make(chan struct{}),
	}
	f.drop = sync.OnceFunc(func() { close(f.dropping) })
	close(f.last)
	return f
}

// Sink writes whole lines of many goroutines to one file.
type Sink struct {
	out  *outFile
	file *os.File
	name string

	err     error                       // the first error, nothing is written after it; of the goroutine that writes
	failed  atomic.Pointer[func(error)] // nil: no callback
	dropped atomic.Int64                // bytes
}

// OnError sets the function that is called, once, with the first write error after this call, and with those of
// Options.Raw. After an error of its own the Sink accepts all writes and drops them.
func (s *Sink) OnError(f func(error)) { s.failed.Store(&f) }

// Name returns "stdout" or "stderr".
func (s *Sink) Name() string { return s.name }

// Dropped returns the number of bytes dropped since DropUnread.
func (s *Sink) Dropped() int { return int(s.dropped.Load()) }

// Flushed returns a channel that is closed when the file has taken all output printed before the call; never, if it has
// no reader.
func (s *Sink) Flushed() <-chan struct{} {
	done, _ := s.print(nil)
	return done
}

// Printf writes one line of treerun's own, or several at a time. The newline at the end is added. It waits until they
// are written, but not for a reader that does not read: see Flushed.
func (s *Sink) Printf(format string, args ...any) {
	text := fmt.Appendf(nil, format, args...)
	if s.out.terminal { // lines of ranks may be among them
		var safe []byte
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			safe = append(appendReset(append(safe, line...), line), '\n')
		}
		text = safe[:len(safe)-1]
	}
	s.printAndWait(append(text, '\n'))
}

// printAndWait prints and waits, as Printf does.
func (s *Sink) printAndWait(text []byte) {
	done, earlier := s.print(text)
	select {
	case <-earlier:
	default:
		return // another goroutine waits for the lines before, perhaps in vain
	}
	select {
	case <-done:
	case <-time.After(lineTimeout):
	}
}

// Errorf is Printf for errors: it writes "treerun: " and then the error.
func (s *Sink) Errorf(format string, args ...any) {
	s.Printf("%s "+format, append([]any{Paint(s.file, Red, "treerun:")}, args...)...)
}

// Status shows a line until other output follows, "" shows none. It reports false, and does nothing, where there is no
// Sink or it is no terminal.
func (s *Sink) Status(text string) bool {
	if s == nil || !s.out.terminal {
		return false
	}
	s.printAndWait([]byte(text + "\r"))
	return true
}

// Progress shows a line about work that takes long, every second from the first on: the text, and the time so far. On
// anything but a terminal there is none. end ends it, and erases the line. text may be called in another goroutine.
func (s *Sink) Progress(text func() string) (end func()) {
	if s == nil || !s.out.terminal {
		return func() {}
	}
	ended, over := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(over)
		tick := time.NewTicker(ProgressEvery)
		defer tick.Stop()
		for shown := false; ; {
			select {
			case <-tick.C:
				shown = s.Status(fmt.Sprintf("treerun: %.65s ... %.0f s", text(), time.Since(began).Seconds()))
			case <-ended:
				if shown {
					s.Status("")
				}
				return
			}
		}
	}()
	return func() { close(ended); <-over }
}

// Write makes a Sink an io.Writer of whole lines, and loses none.
func (s *Sink) Write(lines []byte) (int, error) {
	s.write(bytes.Clone(lines), nil, false)
	return len(lines), nil
}

// print writes treerun's own output, in the order of the calls. It does not wait: done is closed when text is written,
// and before when all earlier output is.
func (s *Sink) print(text []byte) (done, earlier chan struct{}) {
	f := s.out
	done = make(chan struct{})
	f.mu.Lock()
	earlier, f.last = f.last, done
	f.mu.Unlock()
	go func() {
		defer close(done)
		<-earlier
		f.token <- struct{}{}
		s.writeNow(text, nil, false)
	}()
	return done, earlier
}

// write writes lines of a rank; open: the last one continues in the next call. It returns when the file has taken them,
// or they are dropped: it blocks while the reader of the file is slow. Where it reports false, the file may still be
// taking them: lines must not be changed.
func (s *Sink) write(lines []byte, from *Stream, open bool) (taken bool) {
	if len(lines) == 0 {
		return true
	}
	f, done := s.out, make(chan struct{})
	select {
	case <-f.dropping:
	case f.token <- struct{}{}:
		go func() {
			defer close(done)
			s.writeNow(lines, from, open)
		}()
	}
	select {
	case <-f.dropping: // how much the file took is not known
		s.dropped.Add(int64(len(lines)))
		return false
	case <-done:
		return true
	}
}

// Blocked returns how long the file has not taken the data of the write under way, 0 if there is none.
func (s *Sink) Blocked() time.Duration {
	if begun := s.out.begun.Load(); begun > 0 {
		return time.Since(time.Unix(0, begun))
	}
	return 0
}

// writeNow writes a piece, and returns the token of its caller.
func (s *Sink) writeNow(text []byte, from *Stream, open bool) {
	s.out.begun.Store(time.Now().UnixNano())
	defer func() {
		s.out.begun.Store(0)
		<-s.out.token
	}()
	if s.err != nil || len(text) == 0 {
		return
	}
	prefix := ""
	if s.out.open != nil && s.out.open != from {
		prefix = Mark
	}
	if s.out.dirty {
		prefix += erase
	}
	if prefix != "" {
		_, s.err = s.file.WriteString(prefix)
	}
	if s.out.open = nil; open {
		s.out.open = from
	}
	s.out.dirty = s.out.terminal && text[len(text)-1] == '\r'
	if s.err == nil {
		_, s.err = s.file.Write(text)
	}
	if s.err != nil {
		s.fail(fmt.Errorf("write to %s: %w", s.name, s.err))
	}
}

// fail calls the callback of OnError.
func (s *Sink) fail(err error) {
	if failed := s.failed.Load(); failed != nil {
		(*failed)(err)
	}
}

// Color is a color of text on a terminal: the parameters of an SGR sequence.
type Color string

// The colors.
const (
	Red    Color = "1;31"
	Green  Color = "32"
	Yellow Color = "33"
)

// tagColors are the colors of the tags of ranks, in turn. Red is for errors.
var tagColors = []Color{"36", "32", "35", "33", "34"}

// reset ends all colors.
const reset = "\x1b[0m"

// Paint returns text in a color where w is a terminal whose user wants colors, and
// unchanged elsewhere: see https://no-color.org.
func Paint(w io.Writer, c Color, text string) string {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + reset
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is the number of columns that every terminal has.
const columns = 80

// Fold returns text, with its wide lines broken between words where w is a terminal. The last column of a line
// continues below its beginning; rows of tables remain unchanged.
func Fold(w io.Writer, text string) string {
	if !isTerminal(w) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		column := 0 // of the last column
		if gap := strings.LastIndex(line, "  "); gap >= 0 {
			column = gap + 2
		}
		if utf8.RuneCountInString(line) > columns && column < columns/2 {
			indent := "\n" + strings.Repeat(" ", column)
			lines[i] = line[:column] + strings.Join(numbers.Wrapped(line[column:], columns-column), indent)
		}
	}
	return strings.Join(lines, "\n")
}

// appendReset appends to out the sequence that ends the colors that a line may have left on.
func appendReset(out, line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') >= 0 {
		out = append(out, reset...)
	}
	return out
}
