package output

import (
	"bytes"
	"time"
)

// whole is the cutter that changes no byte: it holds an unfinished line back
// for a while, so that lines of several ranks mix as little as they can.
type whole struct {
	hold time.Duration // 0: show everything at once
	text []byte
	born time.Time // when the oldest byte of text came
}

func (w *whole) add(out, chunk []byte, now time.Time) []byte {
	if w.hold == 0 {
		return append(out, chunk...)
	}
	n := bytes.LastIndexAny(chunk, "\r\n") + 1
	if n > 0 || len(w.text) == 0 {
		w.born = now
	}
	if n > 0 || len(w.text)+len(chunk) > MaxLine {
		out = append(out, w.text...)
		w.text = w.text[:0]
	}
	out = append(out, chunk[:n]...)
	w.text = append(w.text, chunk[n:]...)
	return out
}

func (w *whole) due() time.Time {
	if len(w.text) == 0 {
		return time.Time{}
	}
	return w.born.Add(w.hold)
}

func (w *whole) flush(out []byte, _ time.Time) []byte {
	out = append(out, w.text...)
	w.text = w.text[:0]
	return out
}

func (w *whole) end(out []byte) []byte { return w.flush(out, time.Time{}) }
