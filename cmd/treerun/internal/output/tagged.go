package output

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// tagged is the cutter that puts a tag in front of every line.
type tagged struct {
	tag      [2]string // what stands before and after the time
	time     bool      // there is one
	terminal bool
	limit    int // MaxLine, except in tests

	text     []byte    // the known part of the current line that is not yet shown for good
	oldest   time.Time // when the oldest byte that waits to be shown came
	cr       bool      // a carriage return came: "\r\n", or the end of a progress line
	progress bool      // the current line follows a progress line

	drawn  int       // bytes of text that are in latest, or were shown from there
	latest []byte    // the progress line to show next
	next   time.Time // when
}

// newTagged returns the cutter of a rank's output.
func newTagged(dst *Sink, rank int, options Options) *tagged {
	var parts []string
	if options.Tag.Rank {
		parts = append(parts, strconv.Itoa(rank))
	}
	if options.Tag.Host {
		parts = append(parts, options.Host)
	}
	const clock = "\x00"
	if options.Tag.Time {
		parts = append(parts, clock)
	}
	tag := Paint(dst.file, tagColors[rank%len(tagColors)], "["+strings.Join(parts, " ")+"]") + " "
	t := &tagged{time: options.Tag.Time, terminal: dst.out.terminal, limit: MaxLine}
	t.tag[0], t.tag[1], _ = strings.Cut(tag, clock)
	return t
}

func (t *tagged) add(out, chunk []byte, now time.Time) []byte {
	if !t.pending() {
		t.oldest = now
	}
	for len(chunk) > 0 {
		if t.cr {
			t.cr = false
			if chunk[0] == '\n' {
				out = t.line(out, "\r\n")
				chunk, t.oldest = chunk[1:], now
				continue
			}
			out, t.oldest = t.endProgress(out, now), now
		}
		n := bytes.IndexAny(chunk, "\r\n")
		if n < 0 {
			return t.append(out, chunk)
		}
		out = t.append(out, chunk[:n])
		if chunk[n] == '\r' {
			t.cr = true
		} else {
			out, t.oldest = t.line(out, "\n"), now
		}
		chunk = chunk[n+1:]
	}
	return out
}

// append adds text to the current line, and cuts the line where it gets too long.
func (t *tagged) append(out, text []byte) []byte {
	for len(t.text)+len(text) > t.limit {
		n := t.limit - len(t.text)
		t.text, text = append(t.text, text[:n]...), text[n:]
		out = t.cut(out)
	}
	t.text = append(t.text, text...)
	return out
}

// line shows the current line for good, unless all of it was a progress line.
func (t *tagged) line(out []byte, end string) []byte {
	shown := t.drawn > 0 && t.drawn == len(t.text)
	if out = t.flushLatest(out); !shown {
		out = t.show(out, t.text, end)
	}
	t.text, t.progress = t.text[:0], false
	return out
}

// endProgress shows the current line, on a terminal if it is time, and else as the latest.
func (t *tagged) endProgress(out []byte, now time.Time) []byte {
	switch {
	case len(t.text) == t.drawn:
	case t.terminal:
		t.latest = append(t.latest[:0], t.text...)
	default:
		out = t.show(out, t.text, "\n")
	}
	t.text, t.drawn, t.progress = t.text[:0], 0, true
	return t.showLatest(out, now)
}

// showLatest shows the latest progress line if it is time: on a terminal, not at any.
func (t *tagged) showLatest(out []byte, now time.Time) []byte {
	if len(t.latest) == 0 || t.terminal && now.Before(t.next) {
		return out
	}
	out = t.show(out, t.latest, "\n")
	t.latest, t.next = t.latest[:0], now.Add(ProgressEvery)
	return out
}

// flushLatest shows the latest progress line before others, unless the current line, which is
// shown then, begins with it.
func (t *tagged) flushLatest(out []byte) []byte {
	if len(t.latest) > 0 && (t.drawn == 0 || t.drawn == len(t.text)) {
		out = t.show(out, t.latest, "\n")
	}
	t.latest, t.drawn = t.latest[:0], 0
	return out
}

// cut shows the text of the current line so far, with the mark, except the beginning of a character at its end.
func (t *tagged) cut(out []byte) []byte {
	n := wholeRunes(t.text)
	out = t.show(t.flushLatest(out), t.text[:n], Mark)
	t.text = append(t.text[:0], t.text[n:]...)
	return out
}

// show writes a line with its tag.
func (t *tagged) show(out, text []byte, end string) []byte {
	if out = append(out, t.tag[0]...); t.time {
		out = t.oldest.AppendFormat(out, "15:04:05.000")
	}
	out = append(append(out, t.tag[1]...), text...)
	if t.terminal {
		out = appendReset(out, text)
	}
	return append(out, end...)
}

// pending reports whether text waits to be shown later.
func (t *tagged) pending() bool {
	switch {
	case t.cr:
		return true
	case t.progress:
		return wholeRunes(t.text) > t.drawn
	}
	return wholeRunes(t.text) > 0
}

// shownAt returns when the waiting text is shown. A progress line that is not complete is, unless on a terminal, shown
// only once no more of it comes.
func (t *tagged) shownAt() time.Time {
	if t.progress && !t.cr && !t.terminal {
		return t.oldest.Add(ProgressEvery)
	}
	return t.oldest.Add(FlushAfter)
}

func (t *tagged) due() time.Time {
	at := t.shownAt()
	if !t.pending() {
		at = time.Time{}
	}
	if len(t.latest) > 0 && (at.IsZero() || t.next.Before(at)) {
		at = t.next
	}
	return at
}

func (t *tagged) flush(out []byte, now time.Time) []byte {
	switch {
	case !t.pending() || now.Before(t.shownAt()):
	case t.cr:
		t.cr = false
		return t.endProgress(out, now)
	case t.progress: // show it, and keep it for the text that follows
		t.drawn = wholeRunes(t.text)
		t.latest = append(t.latest[:0], t.text[:t.drawn]...)
	default:
		return t.cut(out)
	}
	return t.showLatest(out, now)
}

func (t *tagged) end(out []byte) []byte {
	t.cr = false
	if len(t.text) == 0 {
		return t.flushLatest(out)
	}
	return t.line(out, "\n")
}

func (t *tagged) open() bool { return false }

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
