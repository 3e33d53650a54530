package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of the JSON of a file, whatever it says.
const (
	maxDepth    = 5
	maxElements = 2 * MaxRanks // of an array: the tracks of a lane
)

// checkJSON reads data once as JSON of any form. It refuses what the library lets
// pass when it decodes: null, a field that stands twice, arrays so large that a
// false file could make us allocate much, and text behind the first value.
func checkJSON(data []byte) error {
	c := jsonChecker{json.NewDecoder(bytes.NewReader(data))}
	c.UseNumber()
	var bad *badValue
	err := c.value(0)
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("%s %s", cmp.Or(strings.TrimPrefix(bad.path, "."), "all of it"), bad.text)
	case err != nil:
		return fmt.Errorf("no JSON from byte %d of %d on: %w", c.InputOffset(), len(data), err)
	}
	if _, err := c.Token(); err != io.EOF {
		return fmt.Errorf("more text behind the plan, from byte %d on", c.InputOffset())
	}
	return nil
}

type jsonChecker struct{ *json.Decoder }

// badValue is what is wrong with the value at path, as in ".lanes[3].weight".
type badValue struct{ path, text string }

func (e *badValue) Error() string { return e.path + " " + e.text }

// value reads a value and what is in it.
func (c jsonChecker) value(depth int) error {
	t, err := c.Token()
	switch {
	case err != nil:
		return err
	case t == nil:
		return &badValue{"", "is null"}
	case depth > maxDepth:
		return &badValue{"", "is nested too deeply"}
	case t == json.Delim('['):
		err = c.array(depth)
	case t == json.Delim('{'):
		err = c.object(depth)
	default:
		return nil
	}
	if err == nil {
		_, err = c.Token()
	}
	return err
}

func (c jsonChecker) array(depth int) error {
	for i := 0; c.More(); i++ {
		if i == maxElements {
			return &badValue{"", fmt.Sprintf("has more than %d elements", maxElements)}
		}
		if err := c.value(depth + 1); err != nil {
			return within(fmt.Sprintf("[%d]", i), err)
		}
	}
	return nil
}

func (c jsonChecker) object(depth int) error {
	seen := make(map[string]bool)
	for c.More() {
		t, err := c.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		switch {
		case seen[key]:
			return &badValue{"." + key, "stands twice"}
		case strings.ToLower(key) != key: // the library takes it for the other
			return &badValue{"." + key, "is unknown: names are in lower case"}
		}
		seen[key] = true
		if err := c.value(depth + 1); err != nil {
			return within("."+key, err)
		}
	}
	return nil
}

// within puts where a bad value stands in front of its path.
func within(path string, err error) error {
	var bad *badValue
	if errors.As(err, &bad) {
		bad.path = path + bad.path
	}
	return err
}

// inWords makes an error of the decoder one for people.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return fmt.Errorf("%s holds a %s, want %s (near byte %d)", kind.Field, kind.Value, kind.Type, kind.Offset)
	}
	return err
}
