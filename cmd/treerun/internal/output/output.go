// Package output carries the output of the ranks to the user's screen: line by line, so that one line of a rank is one
// line there, each with the rank in front. Cutting a stream into lines is a pure state machine (tagged, unchanged);
// Stream and Screen do the reading and writing around it. It does not depend on processes. Only the packages below
// cmd/treerun import it.
//
// With tags, the screen differs from the output of a rank in these ways only:
//
//   - Every line has "[rank] " in front. A last line without an end gets one.
//   - An unfinished line is shown after FlushAfter, and one longer than MaxLine
//     when it has become so long; then " \" and a newline (Mark) follow, and
//     the rest comes as a line of its own. A character of UTF-8 is never cut: its
//     first bytes wait for the others, or for the end.
//   - A carriage return that is not part of "\r\n" ends a progress line. It
//     becomes an ordinary line, shown when it is complete; empty ones are left
//     out. A terminal gets the latest of a rank's at most every ProgressEvery,
//     and unfinished ones too. The last one before an ordinary line is shown.
//   - On a terminal the tag has a color (Paint), and a line with escape sequences
//     gets one at its end that resets colors.
//
// Without tags the bytes of each rank are passed on unchanged, in whole lines of up to MaxLine bytes as long as the
// rank does not pause for FlushAfter within one. Where another stream writes before the rest of a longer line, Mark
// stands between them. Memory is bounded in all cases, to about 7 MaxLine for a rank's two streams: where the reader is
// slow, the ranks wait, until Screen.DropUnread.
package output

import (
	"bytes"
	"time"
)

const (
	// FlushAfter is how long the text of an unfinished line is held back.
	FlushAfter = 50 * time.Millisecond

	// ProgressEvery is how often progress lines of one rank, and lines about long waits, are shown on a terminal.
	ProgressEvery = time.Second

	// MaxLine is the length in bytes at which a line is cut.
	MaxLine = 1 << 20

	// Mark ends a piece whose line continues in the next piece of that rank.
	Mark = " \\\n"
)

// erase clears the line of a terminal from the cursor on.
const erase = "\x1b[K"

// A cutter turns the bytes of one stream into the text for the screen. It is pure: time comes as an argument.
type cutter interface {
	// add takes the next bytes and appends to out the text that can be shown now.
	add(out, chunk []byte, now time.Time) []byte
	// due returns the time for a call of flush, if no more bytes come before; zero: never.
	due() time.Time
	// flush appends to out the text that has been held back until now.
	flush(out []byte, now time.Time) []byte
	// end appends to out the rest of the text at the end of the stream.
	end(out []byte) []byte
	// open reports whether the text shown last is the beginning of a line that was too long.
	open() bool
}

// unchanged is the cutter that changes no byte: it holds an unfinished line back for a while, so that lines of several
// ranks mix as little as possible.
type unchanged struct {
	hold    time.Duration // 0: show everything at once
	limit   int           // MaxLine, except in tests
	text    []byte
	oldest  time.Time // when the oldest byte of text came
	newest  time.Time // and the latest
	cutLine bool      // a line was longer than limit, and its end has not been shown
}

func (w *unchanged) add(out, chunk []byte, now time.Time) []byte {
	if w.hold == 0 {
		return append(out, chunk...)
	}
	n := bytes.LastIndexAny(chunk, "\r\n") + 1
	if n > 0 || len(w.text) == 0 {
		w.oldest = now
	}
	w.newest = now
	if cut := n == 0 && len(w.text)+len(chunk) > w.limit; n > 0 || cut {
		k := len(w.text)
		if cut {
			k = wholeRunes(w.text)
		}
		out = append(out, w.text[:k]...)
		w.text, w.cutLine = append(w.text[:0], w.text[k:]...), cut
	}
	out = append(out, chunk[:n]...)
	w.text = append(w.text, chunk[n:]...)
	return out
}

// due delays a flush for the rest of a line that keeps growing.
func (w *unchanged) due() time.Time {
	if wholeRunes(w.text) == 0 {
		return time.Time{}
	}
	if at := w.oldest.Add(20 * w.hold); at.Before(w.newest.Add(w.hold)) {
		return at
	}
	return w.newest.Add(w.hold)
}

func (w *unchanged) flush(out []byte, _ time.Time) []byte {
	k := wholeRunes(w.text)
	out = append(out, w.text[:k]...)
	w.text = append(w.text[:0], w.text[k:]...)
	return out
}

func (w *unchanged) end(out []byte) []byte { return append(out, w.text...) }

func (w *unchanged) open() bool { return w.cutLine }
