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
	ring []byte // tailBytes long once something has come
	n    int64  // bytes that have come in all
	last time.Time
}

// Write never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ring == nil {
		t.ring = make([]byte, tailBytes)
	}
	t.last = time.Now()
	end := b[max(0, len(b)-tailBytes):]
	t.n += int64(len(b) - len(end))
	copy(t.ring, end[copy(t.ring[t.n%tailBytes:], end):])
	t.n += int64(len(end))
	return len(b), nil
}

// Last returns when the stream was last written to, and whether it was.
func (t *Tail) Last() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last, t.n > 0
}

// Lines returns the last lines of the stream, at most limit, without their
// ends. Of a progress line only the last state counts, and the first line has
// "..." in front where its beginning has been forgotten.
func (t *Tail) Lines(limit int) []string {
	text, cut := t.bytes()
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 || limit <= 0 {
		return nil
	}
	lines := strings.Split(string(text), "\n")
	if cut {
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

// bytes returns what is remembered, and whether something before it is not.
func (t *Tail) bytes() (text []byte, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n <= tailBytes {
		return bytes.Clone(t.ring[:t.n]), false
	}
	at := t.n % tailBytes
	return append(bytes.Clone(t.ring[at:]), t.ring[:at]...), true
}
