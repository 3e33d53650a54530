package topo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// decoder reads JSON strictly: every field is known, stands once, and is no
// null; fields that must be there are; arrays are read one element at a time,
// up to a limit, so that a false file cannot make us allocate much. Errors name
// the element.
type decoder struct {
	*json.Decoder
	data []byte // all of it
}

// field is one field of an object.
type field struct {
	name string
	must bool                    // be there
	read func(name string) error // names the field in its errors
}

// decode reads the one JSON value that data holds with read. A byte order mark in
// front of it, as some editors write it, is passed over.
func decode(data []byte, read func(d decoder) error) error {
	if len(data) > MaxGraphBytes {
		return fmt.Errorf("%d bytes of JSON, want at most %d", len(data), MaxGraphBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := read(decoder{json.NewDecoder(bytes.NewReader(data)), data}); err != nil {
		return err
	}
	if bad := findBroken(data); bad != nil { // behind what was read
		return bad
	}
	return nil
}

// object reads an object with at most 64 fields.
func (d decoder) object(fields []field) error {
	if err := d.open('{', "an object"); err != nil {
		return err
	}
	seen := uint64(0)
	for d.More() {
		key, err := d.token()
		if err != nil {
			return err
		}
		i := 0
		for i < len(fields) && fields[i].name != key {
			i++
		}
		if i == len(fields) {
			return fmt.Errorf("unknown field %q, want %s", key, names(fields))
		}
		if seen>>i&1 == 1 {
			return fmt.Errorf("%q stands twice", key)
		}
		seen |= 1 << i
		if err := fields[i].read(fields[i].name); err != nil {
			return err
		}
	}
	if _, err := d.token(); err != nil { // before what is missing: it may have been cut off
		return err
	}
	for i, f := range fields {
		if f.must && seen>>i&1 == 0 {
			return fmt.Errorf("%q is missing", f.name)
		}
	}
	return nil
}

func names(fields []field) string {
	var list []string
	for _, f := range fields {
		list = append(list, f.name)
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// array reads an array of at most so many elements, each with read.
func (d decoder) array(most int, read func(i int) error) error {
	if err := d.open('[', "an array"); err != nil {
		return err
	}
	for i := 0; d.More(); i++ {
		if i == most {
			return fmt.Errorf("has more than %d elements", most)
		}
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := d.token()
	return err
}

// open reads the bracket that a value must begin with.
func (d decoder) open(bracket json.Delim, want string) error {
	t, err := d.token()
	if err != nil {
		return err
	}
	if t == bracket {
		return nil
	}
	found := "null"
	switch t := t.(type) {
	case json.Delim:
		found = "an object"
		if t == '[' {
			found = "an array"
		}
	case string:
		found = "a string"
	case float64:
		found = "a number"
	case bool:
		found = "a bool"
	}
	return fmt.Errorf("holds %s, want %s", found, want)
}

// scalar returns the reader of a field that holds one T.
func scalar[T int | float64 | string](d decoder, to *T) func(name string) error {
	return func(name string) error {
		return below(fmt.Sprintf("%q", name), one(d, to))
	}
}

// one reads a number or a string.
func one[T int | float64 | string](d decoder, to *T) error {
	p := to // null makes it nil
	err := d.Decode(&p)
	if p != nil && err == nil {
		return nil
	}
	want := "a string"
	switch any(to).(type) {
	case *int:
		want = "a whole number"
	case *float64:
		want = "a number"
	}
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		if number, ok := strings.CutPrefix(kind.Value, "number "); ok {
			return badNumber(number, want)
		}
		return fmt.Errorf("holds a %s, want %s", kind.Value, want)
	case err != nil:
		return d.broken(err, want)
	}
	return fmt.Errorf("is null, want %s", want)
}

// badNumber says why a number cannot be what is wanted.
func badNumber(number, want string) error {
	v, err := strconv.ParseFloat(number, 64)
	whole := want == "a whole number"
	switch {
	case !whole && err != nil:
		return fmt.Errorf("is %s, which is out of range: no rate or latency is above %g", number, MaxRate)
	case whole && (err != nil || math.Abs(v) > 1<<53):
		return fmt.Errorf("is %s, which is out of range, want %s", number, want)
	case whole && v == math.Trunc(v):
		return fmt.Errorf("is %s, want %s without point and exponent: write %.0f", number, want, v)
	}
	return fmt.Errorf("is %s, want %s", number, want)
}

// label returns the reader of a field that holds a word or two for people:
// printable, so that it cannot play with a terminal, and not long.
func label(d decoder, to *string) func(name string) error {
	return func(name string) error {
		if err := scalar(d, to)(name); err != nil {
			return err
		}
		if n := utf8.RuneCountInString(*to); n > maxLabel {
			return fmt.Errorf("%q has %d characters, want at most %d", name, n, maxLabel)
		}
		if i := strings.IndexFunc(*to, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			return fmt.Errorf("%q is %q, with a character that cannot be printed", name, *to)
		}
		return nil
	}
}

// maxLabel is the length of names in a file, in characters.
const maxLabel = 256

// ranks returns the reader of a field that holds at most so many ranks, hosts or
// rounds.
func ranks(d decoder, to *[]int, most int) func(name string) error {
	return func(name string) error {
		list := []int{}
		err := d.array(most, func(i int) error {
			list = append(list, 0)
			return below(fmt.Sprintf("[%d]", i), one(d, &list[i]))
		})
		if err != nil {
			return inArray(name, err)
		}
		*to = list
		return nil
	}
}

// inArray puts the name of an array in front of an error about an element or
// about the array.
func inArray(name string, err error) error {
	if text := err.Error(); text[0] == '[' {
		return fmt.Errorf("%s%w", name, err)
	}
	return below(fmt.Sprintf("%q", name), err)
}

// elements returns the reader of a field that holds at most so many objects.
func elements[T any](d decoder, to *[]T, most int, fields func(*T) []field) func(name string) error {
	return func(name string) error {
		var list []T
		var one, zero T
		known := fields(&one)
		err := d.array(most, func(i int) error {
			one = zero
			if err := d.object(known); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
			list = append(list, one)
			return nil
		})
		if err != nil {
			return inArray(name, err)
		}
		*to = list
		return nil
	}
}
