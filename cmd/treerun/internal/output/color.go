package output

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/term"
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
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + reset
}

// appendReset appends to out what ends the colors that a line may have left on.
func appendReset(out, line []byte) []byte {
	if bytes.IndexByte(line, '\x1b') >= 0 {
		out = append(out, reset...)
	}
	return out
}
