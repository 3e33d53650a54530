package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress is a line at the bottom of a terminal that says what is measured. A nil one shows
// nothing.
type progress struct {
	w     io.Writer
	begin time.Time
}

// progressOnTerminal returns one on stderr, nil where that is no terminal.
func progressOnTerminal() *progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return &progress{os.Stderr, time.Now()}
}

// show draws the line, and "" wipes it. The cursor stands at its beginning then: whatever else is
// printed goes over it.
func (p *progress) show(text string) {
	if p == nil {
		return
	}
	if text != "" {
		text = fmt.Sprintf("treerun: bench: %s, after %.0f s\r", text, time.Since(p.begin).Seconds())
	}
	fmt.Fprint(p.w, "\r\x1b[K"+text)
}
