//go:build linux

package launch

import (
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
)

// notice is a line about a lost rank or an epoch.
type notice struct {
	text string
	of   *rankState // the lost rank, whose last lines follow; nil: none
	due  bool       // the end of its output is not waited for
}

const (
	// tailGrace is how long a notice waits for the end of the output of a lost rank: a process that it has started may
	// hold that open.
	tailGrace = 50 * time.Millisecond

	lossLines = 3 // number of lines of a lost rank that are repeated
)

// notify prints a line after those of earlier calls.
func (s *supervisor) notify(text string, of *rankState) {
	n := &notice{text: text, of: of, due: of == nil}
	s.notices = append(s.notices, n)
	if of != nil {
		s.after(tailGrace, func() {
			n.due = true
			s.printNotices(false)
		})
	}
	s.printNotices(false)
}

// printNotices prints the lines up to the first that waits, or all.
func (s *supervisor) printNotices(all bool) {
	for len(s.notices) > 0 {
		n := s.notices[0]
		if !all && !n.due && !n.of.silent {
			return
		}
		s.notices = s.notices[1:]
		text := n.text
		if n.of != nil {
			for _, line := range lastWords(n.of.lastLines(wire.Stderr, maxTail)) {
				text += "\n  | " + line
			}
		}
		s.job.Screen.Err.Printf("treerun: %s", text)
	}
}

// maxTail is the number of the last lines in which lastWords looks for a panic.
const maxTail = 1000

// lastWords returns the lines that give the reason for the end of a rank: those from its panic or fatal error on, else
// the last ones.
func lastWords(lines []string) []string {
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			text := slices.DeleteFunc(slices.Clone(lines[i:]), func(line string) bool { return line == "" })
			return text[:min(len(text), lossLines)]
		}
	}
	return lines[max(0, len(lines)-lossLines):]
}
