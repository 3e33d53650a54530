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
	done  chan struct{}
	ended sync.WaitGroup

	mu    sync.Mutex
	text  string
	drawn bool // it stands in the current line
}

const (
	quietFor    = 2 * time.Second // nothing is shown before
	redrawEvery = 250 * time.Millisecond
	wipe        = "\r\x1b[K"
)

func startProgress(w io.Writer) *progress {
	p := &progress{w: w, begin: time.Now(), done: make(chan struct{}), text: "starting the ranks"}
	p.ended.Go(p.run)
	return p
}

func (p *progress) run() {
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
			p.draw()
		}
	}
}

// draw leaves the cursor at the beginning of the line: whatever else is printed
// goes over it.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after := time.Since(p.begin); after > quietFor {
		fmt.Fprintf(p.w, "%streerun: bench: %s, %.0f s\r", wipe, p.text, after.Seconds())
		p.drawn = true
	}
}

// show sets the text.
func (p *progress) show(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// hide wipes the line, for something that is about to be printed.
func (p *progress) hide() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprint(p.w, wipe)
		p.drawn = false
	}
}

// stop wipes the line for good.
func (p *progress) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.mu.Unlock()
	p.ended.Wait()
	p.hide()
}
