package strict

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxJSONDepth is how deep values of no particular type may nest.
const maxJSONDepth = 16

// checker walks over JSON text beside the type that shall hold it.
type checker struct {
	data   []byte // JSON, or the start of it if broken
	broken bool
	at     int
	limits JSONLimits
	known  map[reflect.Type][]field
}

func (c *checker) bad(at int, format string, args ...any) *badValue {
	return &badValue{text: fmt.Sprintf(format, args...), at: at}
}

// next returns the next byte that is no white space, 0 at the end.
func (c *checker) next() byte {
	for ; c.at < len(c.data); c.at++ {
		switch b := c.data[c.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

// pass passes over a byte, or finds that the text ends before it.
func (c *checker) pass() *badValue {
	if c.next() == 0 {
		return &badValue{}
	}
	c.at++
	return nil
}

var (
	rawType     = reflect.TypeFor[json.RawMessage]()
	anyType     = reflect.TypeFor[any]()
	unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value checks the next value, which t shall hold.
func (c *checker) value(t reflect.Type, depth int) *badValue {
	first, start := c.next(), c.at
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if first == 0 {
		return &badValue{}
	}
	if t == rawType {
		return c.skip()
	}
	word := ""
	if strings.IndexByte(`{["`, first) < 0 {
		var bad *badValue
		if word, bad = c.word(); bad != nil {
			return bad
		}
	}
	found, want := cmp.Or(jsonKinds[first], "a number"), wanted(t)
	switch {
	case t == anyType && found != "null":
		want = found
	case found == "a number" && want == "a whole number":
		want = found
	}
	switch {
	case found == "null":
		return c.bad(start, "is null, want %s", want)
	case found != want:
		return c.bad(start, "holds %s, want %s", found, want)
	case depth > maxJSONDepth:
		return c.bad(start, "is nested too deeply")
	case found == "a number":
		return c.number(t, start, word)
	case first == '{':
		return c.object(t, depth)
	case first == '[':
		return c.array(t, depth)
	case first == '"':
		return c.text(t)
	}
	return nil
}

// jsonKinds says what begins with a byte, if it is no number.
var jsonKinds = map[byte]string{'{': "an object", '[': "an array", '"': "a string", 't': "a bool", 'f': "a bool",
	'n': "null"}

// wanted says what a type holds.
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
	case t == anyType:
		return "a value"
	}
	panic(fmt.Sprintf("strict: no form of %v is known", t))
}

// elements visits the elements of an array, or the names of an object.
func (c *checker) elements(last byte, visit func(i int) *badValue) *badValue {
	start := c.at
	c.at++
	for i := 0; ; i++ {
		switch b := c.next(); {
		case b == last:
			c.at++
			return nil
		case b == ',':
			c.at++
			c.next()
		}
		if i == c.limits.Elements {
			return c.bad(start, "has more than %d elements", i)
		}
		if bad := visit(i); bad != nil {
			return bad
		}
	}
}

func (c *checker) array(t reflect.Type, depth int) *badValue {
	if t != anyType {
		t = t.Elem()
	}
	return c.elements(']', func(i int) *badValue {
		bad := c.value(t, depth+1)
		if bad != nil {
			bad.within("[%d]", i)
		}
		return bad
	})
}

// object checks an object: one for a struct, or any names with values of one type.
func (c *checker) object(t reflect.Type, depth int) *badValue {
	start := c.at
	var list []field
	if t.Kind() == reflect.Struct {
		list = c.fields(t)
	} else if t != anyType {
		t = t.Elem()
	}
	known, others := uint64(0), make(map[string]bool) // which names have been there
	bad := c.elements('}', func(int) *badValue {
		at := c.at
		name, bad := c.string()
		if bad != nil {
			return bad
		}
		typ, twice, path := t, others[string(name)], "[%.40q]"
		if list == nil {
			others[string(name)] = true
		} else {
			i := slices.IndexFunc(list, func(f field) bool { return f.name == string(name) })
			if i < 0 {
				return c.bad(at, "has an unknown field %.40q, want %s", name, names(list))
			}
			typ, twice, path = list[i].typ, known>>i&1 == 1, ".%s"
			known |= 1 << i
		}
		if twice {
			bad = c.bad(at, "stands twice")
		} else if bad = c.pass(); bad == nil { // the colon
			bad = c.value(typ, depth+1)
		}
		if bad != nil {
			bad.within(path, name)
		}
		return bad
	})
	for i, f := range list {
		if bad == nil && f.must && known>>i&1 == 0 {
			return c.bad(start, "is missing").within(".%s", f.name)
		}
	}
	return bad
}

// string reads a string.
func (c *checker) string() ([]byte, *badValue) {
	start, escaped := c.at, false
	for c.at++; c.at < len(c.data) && c.data[c.at] != '"'; c.at++ {
		if c.data[c.at] == '\\' {
			escaped = true
			c.at++
		}
	}
	if c.at >= len(c.data) {
		return nil, &badValue{}
	}
	c.at++
	raw := c.data[start+1 : c.at-1]
	if !escaped {
		return raw, nil
	}
	var text string
	if err := json.Unmarshal(c.data[start:c.at], &text); err != nil {
		return nil, c.bad(start, "is no text: %v", err)
	}
	return []byte(text), nil
}

// text checks a string.
func (c *checker) text(t reflect.Type) *badValue {
	start := c.at
	text, bad := c.string()
	if bad != nil || !reflect.PointerTo(t).Implements(unmarshaler) {
		return bad
	}
	if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil {
		return c.bad(start, "is wrong: %v", err)
	}
	return nil
}

// word reads a number, true, false or null.
func (c *checker) word() (string, *badValue) {
	start := c.at
	for c.at < len(c.data) && strings.IndexByte(" \t\r\n,]}", c.data[c.at]) < 0 {
		c.at++
	}
	if c.at == len(c.data) && c.broken {
		return "", &badValue{}
	}
	return string(c.data[start:c.at]), nil
}

// number checks whether t can hold a number.
func (c *checker) number(t reflect.Type, start int, text string) *badValue {
	var err error
	switch k := t.Kind(); {
	case k >= reflect.Int && k <= reflect.Int64:
		_, err = strconv.ParseInt(text, 10, t.Bits())
	case k >= reflect.Uint && k <= reflect.Uint64:
		_, err = strconv.ParseUint(text, 10, t.Bits())
	case k == reflect.Float32:
		_, err = strconv.ParseFloat(text, 32)
	default: // as encoding/json takes a number of no particular type
		_, err = strconv.ParseFloat(text, 64)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrSyntax) && strings.ContainsAny(text, ".eE"):
		return c.bad(start, "is %.40s, want a whole number without point and exponent", text)
	}
	return c.bad(start, "is %.40s, which is out of range", text)
}

// skip passes over a value.
func (c *checker) skip() *badValue {
	d := json.NewDecoder(bytes.NewReader(c.data[c.at:]))
	if err := d.Decode(new(json.RawMessage)); err != nil {
		return &badValue{} // whole values are JSON
	}
	c.at += int(d.InputOffset())
	return nil
}
