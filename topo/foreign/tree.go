package foreign

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// element is an XML element.
type element struct {
	name     string
	line     int
	attrs    []xml.Attr
	children []*element
}

// parseTree reads the one element of an XML text, within the limits. Comments are skipped. Text between elements,
// declarations of types and of entities are errors.
func parseTree(data []byte) (*element, error) {
	d := xml.NewDecoder(bytes.NewReader(start(data)))
	var stack []*element
	var root *element
	for count := 0; ; {
		token, err := d.Token()
		line, _ := d.InputPos()
		switch {
		case err == io.EOF && root != nil:
			return root, nil
		case err == io.EOF:
			return nil, errors.New("no element")
		case err != nil:
			return nil, fmt.Errorf("XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if count++; count > maxElements || len(stack) == maxDepth {
				return nil, fmt.Errorf("line %d: more than %d elements, or %d within each other", line, maxElements, maxDepth)
			}
			e := &element{name: t.Name.Local, line: line, attrs: slices.Clone(t.Attr)}
			switch {
			case len(stack) > 0:
				parent := stack[len(stack)-1]
				parent.children = append(parent.children, e)
			case root != nil:
				return nil, fmt.Errorf("line %d: a second element <%.40s> at the end", line, e.name)
			default:
				root = e
			}
			stack = append(stack, e)
			if err := e.checkAttrs(); err != nil {
				return nil, err
			}
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			if text := bytes.TrimSpace(t); len(text) > 0 {
				return nil, fmt.Errorf("line %d: text %.40q between elements", line, text)
			}
		case xml.Directive:
			return nil, fmt.Errorf("line %d: <!%.40s> is not allowed", line, t)
		}
	}
}

// checkAttrs reports an attribute that stands twice.
func (e *element) checkAttrs() error {
	for i, a := range e.attrs {
		if slices.ContainsFunc(e.attrs[:i], func(b xml.Attr) bool { return b.Name == a.Name }) {
			return e.errorf("%.40s is given twice", a.Name.Local)
		}
	}
	return nil
}

// errorf returns an error that names the element and its line.
func (e *element) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: <%.40s>: %w", e.line, e.name, fmt.Errorf(format, args...))
}

// text returns an attribute, "" where it is not there.
func (e *element) text(name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name {
			return strings.TrimSpace(a.Value)
		}
	}
	return ""
}

// number returns an attribute as a whole number from 0 to most. There is false where it is not there.
func (e *element) number(name string, most int) (n int, there bool, err error) {
	text := e.text(name)
	if text == "" {
		return 0, false, nil
	}
	n, err = strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, true, e.errorf("%s is %.40q, want a whole number from 0 to %d", name, text, most)
	}
	return n, true, nil
}
