package output

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// tailBytes is how much of the end of a stream is remembered.
const tailBytes = 8 << 10

// Tail remembers the end of what is written to it. Its methods may be called concurrently.
type Tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool // something came before text
	last time.Time
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
	t.text = append(t.text, b...)
	if extra := len(t.text) - tailBytes; extra > 0 {
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

// Lines returns the last lines of the stream, at most limit, without their
// ends. Of a progress line only the last state counts, and the first line has
// "..." in front where its beginning has been forgotten.
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
