package output

import (
	"bytes"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/treerun/treerun/internal/numbers"
)

// Color is what a terminal is told to show text in: the parameters of an SGR sequence.
type Color string

// The colors.
const (
	Red    Color = "1;31"
	Green  Color = "32"
	Yellow Color = "33"
)

// tagColors are those of the tags of ranks, in turn. Red is for what went wrong.
var tagColors = []Color{"36", "32", "35", "33", "34"}

// reset ends all colors.
const reset = "\x1b[0m"

// Paint returns text in a color where w is a terminal whose user wants colors, and
// unchanged elsewhere: see https://no-color.org.
func Paint(w io.Writer, c Color, text string) string {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !isTerminal(w) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + reset
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns are those that every terminal has.
const columns = 80

// Fold returns text, where w is a terminal with its wide lines broken between words. The
// last column of a line goes on below its beginning; rows of tables stay as they are.
func Fold(w io.Writer, text string) string {
	if !isTerminal(w) {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		at := 0 // of the last column
		if gap := strings.LastIndex(line, "  "); gap >= 0 {
			at = gap + 2
		}
		if utf8.RuneCountInString(line) > columns && at < columns/2 {
			lines[i] = line[:at] + strings.Join(numbers.Wrapped(line[at:], columns-at), "\n"+strings.Repeat(" ", at))
		}
	}
	return strings.Join(lines, "\n")
}

// appendReset appends to out what ends the colors that a line may have left on.
func appendReset(out, line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') >= 0 {
		out = append(out, reset...)
	}
	return out
}
