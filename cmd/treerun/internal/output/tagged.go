package output

import (
	"bytes"
	"time"
	"unicode/utf8"
)

// tagged is the cutter that puts a tag in front of every line.
type tagged struct {
	tag      string
	terminal bool

	text     []byte    // the current line as far as it is known and not yet shown for good
	since    time.Time // when the oldest byte that waits to be shown came
	cr       bool      // a carriage return came: "\r\n", or the end of a progress line
	progress bool      // the current line follows a progress line
	drawn    int       // bytes of text that a terminal shows already (progress lines only)
}

func (l *tagged) add(out, chunk []byte, now time.Time) []byte {
	if !l.waits() {
		l.since = now
	}
	for len(chunk) > 0 {
		if l.cr {
			l.cr = false
			if chunk[0] == '\n' {
				out = l.line(out, "\r\n")
				chunk, l.since = chunk[1:], now
				continue
			}
			out, l.since = l.endProgress(out), now
		}
		n := bytes.IndexAny(chunk, "\r\n")
		if n < 0 {
			return l.append(out, chunk)
		}
		out = l.append(out, chunk[:n])
		if chunk[n] == '\r' {
			l.cr = true
		} else {
			out, l.since = l.line(out, "\n"), now
		}
		chunk = chunk[n+1:]
	}
	return out
}

// append adds text to the current line, and cuts the line where it gets too
// long.
func (l *tagged) append(out, text []byte) []byte {
	for len(l.text)+len(text) > MaxLine {
		n := MaxLine - len(l.text)
		l.text, text = append(l.text, text[:n]...), text[n:]
		out = l.cut(out)
	}
	l.text = append(l.text, text...)
	return out
}

// line shows the current line for good.
func (l *tagged) line(out []byte, end string) []byte {
	out = l.begin(out)
	out = append(out, l.text...)
	l.text, l.drawn, l.progress = l.text[:0], 0, false
	return append(out, end...)
}

// endProgress shows the current line as one that will be overwritten.
func (l *tagged) endProgress(out []byte) []byte {
	switch {
	case len(l.text) == 0:
	case l.terminal:
		out = l.line(out, "\r")
	default:
		out = l.line(out, "\n")
	}
	l.progress = true
	return out
}

// cut shows what there is of the current line, with the mark, but for the
// beginning of a character at its end.
func (l *tagged) cut(out []byte) []byte {
	n := wholeRunes(l.text)
	out = l.begin(out)
	out = append(out, l.text[:n]...)
	l.text, l.drawn = append(l.text[:0], l.text[n:]...), 0
	return append(out, Mark...)
}

// begin starts a line of the output.
func (l *tagged) begin(out []byte) []byte {
	if l.terminal && len(out) > 0 && out[len(out)-1] == '\r' {
		out = append(out, erase...)
	}
	return append(out, l.tag...)
}

// waits tells whether something is to be shown when the time comes.
func (l *tagged) waits() bool {
	switch {
	case l.cr:
		return true
	case l.progress:
		return l.terminal && len(l.text) > l.drawn
	}
	return len(l.text) > 0
}

func (l *tagged) due() time.Time {
	if !l.waits() {
		return time.Time{}
	}
	return l.since.Add(FlushAfter)
}

func (l *tagged) flush(out []byte) []byte {
	switch {
	case !l.waits():
		return out
	case l.cr:
		l.cr = false
		return l.endProgress(out)
	case l.progress: // on a terminal: draw it, and keep it to draw it again
		out = append(l.begin(out), l.text...)
		l.drawn = len(l.text)
		return append(out, '\r')
	}
	return l.cut(out)
}

func (l *tagged) end(out []byte) []byte {
	l.cr = false
	if len(l.text) == 0 {
		return out
	}
	return l.line(out, "\n")
}

// wholeRunes returns the length of text without an incomplete UTF-8 character
// at its end. Text that is not UTF-8, or nothing but such a character, counts
// whole.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i > 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
