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
	limit    int // MaxLine, except in tests

	text     []byte    // the known part of the current line that is not yet shown for good
	since    time.Time // when the oldest byte that waits to be shown came
	cr       bool      // a carriage return came: "\r\n", or the end of a progress line
	progress bool      // the current line follows a progress line

	drawn  int       // bytes of text that are in latest, or were shown from there
	latest []byte    // the progress line to show next
	next   time.Time // when
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
			out, l.since = l.endProgress(out, now), now
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

// append adds text to the current line, and cuts the line where it gets too long.
func (l *tagged) append(out, text []byte) []byte {
	for len(l.text)+len(text) > l.limit {
		n := l.limit - len(l.text)
		l.text, text = append(l.text, text[:n]...), text[n:]
		out = l.cut(out)
	}
	l.text = append(l.text, text...)
	return out
}

// line shows the current line for good, unless all of it was a progress line.
func (l *tagged) line(out []byte, end string) []byte {
	whole := l.drawn > 0 && l.drawn == len(l.text)
	if out = l.settle(out); !whole {
		out = l.show(out, l.text, end)
	}
	l.text, l.progress = l.text[:0], false
	return out
}

// endProgress shows the current line, on a terminal if it is time, and else as the latest.
func (l *tagged) endProgress(out []byte, now time.Time) []byte {
	switch {
	case len(l.text) == l.drawn:
	case l.terminal:
		l.latest = append(l.latest[:0], l.text...)
	default:
		out = l.show(out, l.text, "\n")
	}
	l.text, l.drawn, l.progress = l.text[:0], 0, true
	return l.showLatest(out, now)
}

// showLatest shows the latest progress line if it is time: on a terminal, not at any.
func (l *tagged) showLatest(out []byte, now time.Time) []byte {
	if len(l.latest) == 0 || l.terminal && now.Before(l.next) {
		return out
	}
	out = l.show(out, l.latest, "\n")
	l.latest, l.next = l.latest[:0], now.Add(ProgressEvery)
	return out
}

// settle shows the latest progress line before others, unless the current line, which is
// shown then, begins with it.
func (l *tagged) settle(out []byte) []byte {
	if len(l.latest) > 0 && (l.drawn == 0 || l.drawn == len(l.text)) {
		out = l.show(out, l.latest, "\n")
	}
	l.latest, l.drawn = l.latest[:0], 0
	return out
}

// cut shows the text of the current line so far, with the mark, except the beginning of a character at its end.
func (l *tagged) cut(out []byte) []byte {
	n := wholeRunes(l.text)
	out = l.show(l.settle(out), l.text[:n], Mark)
	l.text = append(l.text[:0], l.text[n:]...)
	return out
}

// show writes a line with its tag.
func (l *tagged) show(out, text []byte, end string) []byte {
	out = append(append(out, l.tag...), text...)
	if l.terminal {
		out = appendReset(out, text)
	}
	return append(out, end...)
}

// waits reports whether text waits to be shown later.
func (l *tagged) waits() bool {
	switch {
	case l.cr:
		return true
	case l.progress:
		return wholeRunes(l.text) > l.drawn
	}
	return wholeRunes(l.text) > 0
}

// shownAt returns when the waiting text is shown. A progress line that is not complete is, unless on a terminal, shown
// only once no more of it comes.
func (l *tagged) shownAt() time.Time {
	if l.progress && !l.cr && !l.terminal {
		return l.since.Add(ProgressEvery)
	}
	return l.since.Add(FlushAfter)
}

func (l *tagged) due() time.Time {
	at := l.shownAt()
	if !l.waits() {
		at = time.Time{}
	}
	if len(l.latest) > 0 && (at.IsZero() || l.next.Before(at)) {
		at = l.next
	}
	return at
}

func (l *tagged) flush(out []byte, now time.Time) []byte {
	switch {
	case !l.waits() || now.Before(l.shownAt()):
	case l.cr:
		l.cr = false
		return l.endProgress(out, now)
	case l.progress: // show it, and keep it for the text that follows
		l.drawn = wholeRunes(l.text)
		l.latest = append(l.latest[:0], l.text[:l.drawn]...)
	default:
		return l.cut(out)
	}
	return l.showLatest(out, now)
}

func (l *tagged) end(out []byte) []byte {
	l.cr = false
	if len(l.text) == 0 {
		return l.settle(out)
	}
	return l.line(out, "\n")
}

func (l *tagged) open() bool { return false }

// wholeRunes returns the length of text without the first bytes of a UTF-8 character
// at its end. Text that is not UTF-8 counts whole.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
