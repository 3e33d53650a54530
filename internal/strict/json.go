package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// JSONLimits say what a text may be like.
type JSONLimits struct {
	Bytes    int  // of the text
	Elements int  // of one array or map
	Partial  bool // fields may be missing; else all must be there whose tag has no omitempty
}

// UnmarshalJSON decodes the one JSON value of data into what v points to. Errors are
// more bytes or elements than l allows, text behind the value, unknown fields,
// names in other capitals, fields that are missing or stand twice, null, and values
// that the type of v cannot hold. They name the element, as "links[3].a". A
// byte order mark in front, as some editors write it, is passed over. After an
// error *v is undefined. A json.RawMessage takes any value unread.
//
// Nothing is allocated before the text is known to fit.
func UnmarshalJSON(data []byte, v any, l JSONLimits) error {
	if len(data) > l.Bytes {
		return fmt.Errorf("%d bytes of JSON, want at most %d", len(data), l.Bytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	end, why := syntax(data)
	bad := newChecker(data[:end], l).value(reflect.TypeOf(v).Elem(), 0)
	switch {
	case bad == nil && why != "":
		return fmt.Errorf("%s: %s", position(data, end), why)
	case bad != nil && bad.text == "":
		return fmt.Errorf("%s: %s: %s", bad.element(), position(data, end), why)
	case bad != nil:
		return fmt.Errorf("%s %s (%s)", bad.element(), bad.text, position(data, bad.at))
	}
	return json.Unmarshal(data, v)
}

// syntax returns the place from which data is no JSON, and why it is none; its
// length and nothing where it is JSON.
func syntax(data []byte) (int, string) {
	if json.Valid(data) {
		return len(data), ""
	}
	var broken *json.SyntaxError
	err := json.Unmarshal(data, new(json.RawMessage))
	if !errors.As(err, &broken) {
		return 0, "no JSON"
	}
	text, at := err.Error(), max(int(broken.Offset)-1, 0)
	// Where the end cuts off a number, the error is about a space that is not there.
	cut := strings.HasPrefix(text, "unexpected end") || strings.HasPrefix(text, "invalid character ' '") &&
		data[len(data)-1] != ' '
	switch {
	case cut && int(broken.Offset) >= len(data):
		return len(data), fmt.Sprintf("the JSON text ends too early, after %d bytes: is the file cut off?", len(data))
	case strings.HasSuffix(text, "after top-level value"):
		return at, "more text behind the JSON value"
	}
	return at, text
}

// position names a byte of data as people count: lines and columns from 1.
func position(data []byte, at int) string {
	before := data[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, at-bytes.LastIndexByte(before, '\n'))
}

// badValue is what is wrong with one element.
type badValue struct {
	path string // as ".links[3].a"
	text string // a sentence's rest; "": the text is no JSON from here on
	at   int
}

func (b *badValue) element() string {
	if b.path == "" {
		return "the JSON value"
	}
	return strings.TrimPrefix(b.path, ".")
}

// within puts the name of the element around it in front, where something is wrong.
func (b *badValue) within(format string, name any) *badValue {
	if b != nil {
		b.path = fmt.Sprintf(format, name) + b.path
	}
	return b
}

// field is one field of a struct.
type field struct {
	name string
	typ  reflect.Type
	must bool // be there
}

// fields returns the fields of a struct as encoding/json names them.
func (c *checker) fields(t reflect.Type) []field {
	if list, ok := c.known[t]; ok {
		return list
	}
	list := []field{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		list = append(list, field{name, f.Type, !c.limits.Partial && !strings.Contains(options, "omit")})
	}
	c.known[t] = list
	return list
}

// names lists fields as in "a, b or c".
func names(list []field) string {
	var all []string
	for _, f := range list {
		all = append(all, f.name)
	}
	text := strings.Join(all, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		return text[:i] + " or " + text[i+2:]
	}
	return text
}
