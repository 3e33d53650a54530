package strict

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// JSONLimits holds the limits of a JSON text.
type JSONLimits struct {
	Bytes    int  // of the text
	Elements int  // of one array or map
	Partial  bool // fields may be missing; else all fields without omitempty in their tag are required
}

// UnmarshalJSON decodes the one JSON value of data into the value that v points to. Errors are more bytes or elements
// than l allows, text after the value, unknown fields, names in other capitals, missing or duplicate fields, null, and
// values that the type of v cannot hold. They name the element, as "links[3].a". A leading byte order mark, as some
// editors write it, is ignored. After an error *v is undefined.
//
// Nothing is allocated before the text is known to fit.
func UnmarshalJSON(data []byte, v any, l JSONLimits) error {
	if len(data) > l.Bytes {
		return fmt.Errorf("%d bytes of JSON, want at most %d", len(data), l.Bytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	end, why := syntax(data)
	c := &checker{data: data[:end], tokens: json.NewDecoder(bytes.NewReader(data[:end])), limits: l,
		known: make(map[reflect.Type][]field)}
	bad := c.value(reflect.TypeOf(v).Elem())
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

// syntax returns the offset of the first syntax error of data, and a description of it; the length of data and "" if
// data is valid JSON.
func syntax(data []byte) (int, string) {
	var broken *json.SyntaxError
	err := json.Unmarshal(data, new(json.RawMessage))
	if !errors.As(err, &broken) {
		return len(data), ""
	}
	text, at := err.Error(), max(int(broken.Offset)-1, 0)
	// If the end truncates a number, the error is about a space that is not there.
	cut := strings.HasPrefix(text, "unexpected end") || strings.HasPrefix(text, "invalid character ' '") &&
		data[len(data)-1] != ' '
	switch {
	case cut && int(broken.Offset) >= len(data):
		return len(data), fmt.Sprintf("the JSON text ends too early, at byte %d: is the file cut off?", len(data))
	case strings.HasSuffix(text, "after top-level value"):
		return at, "more text behind the JSON value"
	}
	return at, text
}

// position returns the position of a byte of data as line and column, both counted from 1.
func position(data []byte, at int) string {
	before := data[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	return fmt.Sprintf("line %d, column %d", line, at-bytes.LastIndexByte(before, '\n'))
}

// badValue is an error in one element.
type badValue struct {
	path string // as ".links[3].a"
	text string // the rest of a sentence; "": a syntax error from here on
	at   int
}

func (b *badValue) element() string {
	if b.path == "" {
		return "the JSON value"
	}
	return strings.TrimPrefix(b.path, ".")
}

// within prepends the name of the enclosing element, if b is an error.
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
	must bool // is required
}

// fields returns the fields of a struct under the names of encoding/json.
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

// names returns a list of field names such as "a, b or c".
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

// checker compares the tokens of a JSON text with the type that is to hold it.
type checker struct {
	data   []byte // JSON, or the start of it if it is broken
	tokens *json.Decoder
	limits JSONLimits
	known  map[reflect.Type][]field
}

func bad(at int, format string, args ...any) *badValue {
	return &badValue{text: fmt.Sprintf(format, args...), at: at}
}

// at returns the offset of the next token, the length of the text at its end.
func (c *checker) at() int {
	at := int(c.tokens.InputOffset())
	for at < len(c.data) && strings.IndexByte(" \t\r\n,:", c.data[at]) >= 0 {
		at++
	}
	return at
}

var unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// value checks the next value, which t must be able to hold.
func (c *checker) value(t reflect.Type) *badValue {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	start := c.at()
	first := byte(0) // at the end of the text
	if start < len(c.data) {
		first = c.data[start]
	}
	var err error
	if first == '{' || first == '[' {
		_, err = c.tokens.Token()
	} else {
		err = c.tokens.Decode(reflect.New(t).Interface())
	}
	isEnd := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if isEnd || errors.As(err, new(*json.SyntaxError)) {
		return &badValue{}
	}
	found, want := cmp.Or(jsonKinds[first], "a number"), wanted(t)
	whole := want == "a whole number"
	switch {
	case found == "null":
		return bad(start, "is null, want %s", want)
	case found != want && !(whole && found == "a number"):
		return bad(start, "holds %s, want %s", found, want)
	case first == '{':
		return c.object(t, start)
	case first == '[':
		return c.array(t, start)
	case err == nil:
		return nil
	case !errors.As(err, new(*json.UnmarshalTypeError)):
		return bad(start, "is wrong: %v", err)
	}
	text := c.data[start:c.tokens.InputOffset()]
	if whole && bytes.ContainsAny(text, ".eE") {
		return bad(start, "is %.40s, want a whole number without point and exponent", text)
	}
	return bad(start, "is %.40s, which is out of range", text)
}

// jsonKinds maps the first byte of a value to its kind; numbers are not included.
var jsonKinds = map[byte]string{'{': "an object", '[': "an array", '"': "a string", 't': "a bool", 'f': "a bool",
	'n': "null"}

// wanted returns the kind of JSON value that a type holds.
func wanted(t reflect.Type) string {
	k := t.Kind()
	switch {
	case k == reflect.String || reflect.PointerTo(t).Implements(unmarshaler):
		return "a string"
	case k == reflect.Struct || k == reflect.Map:
		return "an object"
	case k == reflect.Slice || k == reflect.Array:
		return "an array"
	case k == reflect.Bool:
		return "a bool"
	case k >= reflect.Int && k <= reflect.Uint64:
		return "a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	}
	panic(fmt.Sprintf("strict: no form of %v is known", t))
}

// elements visits the elements of an array that begins at start, or the names of an object.
func (c *checker) elements(start int, visit func(i, at int) *badValue) *badValue {
	for i := 0; ; i++ {
		at := c.at()
		if at < len(c.data) && (c.data[at] == ']' || c.data[at] == '}') {
			_, _ = c.tokens.Token() // the end of the array or object
			return nil
		}
		if i == c.limits.Elements {
			return bad(start, "has more than %d elements", i)
		}
		if bad := visit(i, at); bad != nil {
			return bad
		}
	}
}

func (c *checker) array(t reflect.Type, start int) *badValue {
	return c.elements(start, func(i, _ int) *badValue { return c.value(t.Elem()).within("[%d]", i) })
}

// object checks an object: one for a struct, or any names with values of one type.
func (c *checker) object(t reflect.Type, start int) *badValue {
	var list []field
	if t.Kind() == reflect.Struct {
		list = c.fields(t)
	} else {
		t = t.Elem()
	}
	known := make(map[string]bool) // names seen so far
	wrong := c.elements(start, func(_, at int) *badValue {
		token, err := c.tokens.Token()
		if err != nil {
			return &badValue{}
		}
		name, typ, path := token.(string), t, "[%.40q]"
		if list != nil {
			i := slices.IndexFunc(list, func(f field) bool { return f.name == name })
			if i < 0 {
				return bad(at, "has an unknown field %.40q, want %s", name, names(list))
			}
			typ, path = list[i].typ, ".%s"
		}
		if known[name] {
			return bad(at, "is given twice").within(path, name)
		}
		known[name] = true
		return c.value(typ).within(path, name)
	})
	for _, f := range list {
		if wrong == nil && f.must && !known[f.name] {
			return bad(start, "is missing").within(".%s", f.name)
		}
	}
	return wrong
}
