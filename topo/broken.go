package topo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// brokenError is about a text that is no JSON. Those who read the elements
// around the place put their names in front.
type brokenError struct{ text string }

// Error says what is wrong and where.
func (e *brokenError) Error() string { return e.text }

// token reads the next token.
func (d decoder) token() (json.Token, error) {
	t, err := d.Token()
	if err != nil {
		return nil, d.broken(err, "")
	}
	return t, nil
}

// broken says what of the text stopped the decoder. Where a value was wanted and
// a word stands there, as NaN, it is called by what it is.
func (d decoder) broken(err error, want string) error {
	var syntax *json.SyntaxError
	if bad := findBroken(d.data); bad != nil {
		whole := json.Unmarshal(d.data, new(json.RawMessage))
		if errors.As(whole, &syntax) && want != "" && inValue(syntax) && !atEnd(d.data, syntax) {
			if w := word(d.data, int(syntax.Offset)-1); w != "" {
				return fmt.Errorf("is %s, want %s (%s)", w, want, position(d.data, syntax.Offset-1))
			}
		}
		return bad
	}
	return err
}

// inValue tells whether a value is what is broken: its first byte, or one in the
// middle of a number or a word.
func inValue(err *json.SyntaxError) bool {
	return strings.Contains(err.Error(), "beginning of value") || strings.Contains(err.Error(), "literal")
}

// findBroken says why data is no JSON, and where; nil when it is.
func findBroken(data []byte) *brokenError {
	if json.Valid(data) {
		return nil
	}
	var syntax *json.SyntaxError
	err := json.Unmarshal(data, new(json.RawMessage))
	switch {
	case !errors.As(err, &syntax):
		return &brokenError{"no JSON"}
	case atEnd(data, syntax):
		return &brokenError{fmt.Sprintf("the JSON text ends too early, after %d bytes: is the file cut off?", len(data))}
	case strings.HasSuffix(syntax.Error(), "after top-level value"):
		return &brokenError{position(data, syntax.Offset-1) + ": more text behind the JSON value"}
	}
	return &brokenError{position(data, syntax.Offset-1) + ": " + err.Error()}
}

// atEnd tells whether data ends too early: where a number is cut off, the error
// is one about a space that is not there.
func atEnd(data []byte, err *json.SyntaxError) bool {
	if int(err.Offset) < len(data) {
		return false
	}
	return strings.HasPrefix(err.Error(), "unexpected end") ||
		strings.HasPrefix(err.Error(), "invalid character ' '") && data[len(data)-1] != ' '
}

// position names a byte of data as people count: lines and columns from 1.
func position(data []byte, index int64) string {
	before := data[:max(min(int(index), len(data)), 0)]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, len(before)-bytes.LastIndexByte(before, '\n'))
}

// word is what stands at a byte of data that somebody meant as a number or a
// word, as -Infinity; empty when nothing like that does, or it is long.
func word(data []byte, at int) string {
	const most = 32
	part := func(c byte) bool {
		return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '-' || c == '+' || c == '.'
	}
	from, to := at, at
	for from > 0 && from > at-most && part(data[from-1]) {
		from--
	}
	for to < len(data) && to < at+most && part(data[to]) {
		to++
	}
	if to == at || to-from >= most {
		return ""
	}
	return string(data[from:to])
}

// below puts the name of an element in front of an error about it, which is a
// sentence's rest, or about the text of it, which is a sentence of its own.
func below(name string, err error) error {
	var bad *brokenError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad):
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s %w", name, err)
}
