package bench

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress is a line at the bottom of a terminal that says what is going on,
// when that takes long. A nil one shows nothing.
type progress struct {
	w     io.Writer
	begin time.Time

	mu    sync.Mutex
	timer *time.Timer // draws the line; nil: it is stopped
	text  string
	drawn bool // it stands in the current line
}

const (
	quietFor    = 2 * time.Second // nothing is shown before
	redrawEvery = 250 * time.Millisecond
	wipe        = "\r\x1b[K"
)

func startProgress(w io.Writer) *progress {
	p := &progress{w: w, begin: time.Now(), text: "starting the ranks"}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(quietFor, p.draw)
	return p
}

// draw leaves the cursor at the beginning of the line: whatever else is printed
// goes over it.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		fmt.Fprintf(p.w, "%streerun: bench: %s, %.0f s\r", wipe, p.text, time.Since(p.begin).Seconds())
		p.drawn = true
		p.timer.Reset(redrawEvery)
	}
}

// show sets the text.
func (p *progress) show(text string) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.text = text
	}
}

// hide wipes the line, for something that is about to be printed.
func (p *progress) hide() {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wipe()
	}
}

// stop wipes the line for good.
func (p *progress) stop() {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = nil
		p.wipe()
	}
}

func (p *progress) wipe() {
	if p.drawn {
		fmt.Fprint(p.w, wipe)
		p.drawn = false
	}
}
