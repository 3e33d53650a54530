package topo

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxGraphBytes bounds the JSON form of a Graph or a Tree, in bytes.
const MaxGraphBytes = 256 << 20

// graphFile is the JSON form of a Graph: lists that can be long are read one
// element at a time, so that a false file cannot make us allocate much.
type graphFile struct {
	Name  string     `json:"name,omitempty"`
	Ranks int        `json:"ranks"`
	Hosts []int      `json:"hosts,omitempty"`
	Links list[Link] `json:"links"`
	Ports list[Port] `json:"ports,omitempty"`
}

// list is a JSON array of links or ports.
type list[T Link | Port] []T

// UnmarshalJSON reads the array, up to the limit of a Graph, and names the
// element that is wrong.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	var one T
	name, most := "link", MaxLinks
	if _, ok := any(one).(Port); ok {
		name, most = "port", MaxPorts
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return fmt.Errorf("want an array of %ss, found %.20s", name, data)
	}
	for d.More() {
		if len(*l) == most {
			return fmt.Errorf("more than %d %ss", most, name)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return fmt.Errorf("%s %d: %w", name, len(*l), plain(err))
		}
		*l = append(*l, one)
	}
	return nil
}

// plain says what is wrong with a value as the author of the file sees it.
func plain(err error) error {
	if kind, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Errorf("field %q holds a %s, want %v", kind.Field, kind.Value, kind.Type)
	}
	return err
}

// ParseGraph reads the JSON form of a Graph, as in a graph file, and validates
// it. Unknown fields, a second value behind the first and a text that ends too
// early are errors.
func ParseGraph(data []byte) (*Graph, error) {
	var f graphFile
	if err := parse(data, &f); err != nil {
		return nil, fmt.Errorf("topo: graph: %w", err)
	}
	g := &Graph{Name: f.Name, Ranks: f.Ranks, Hosts: f.Hosts, Links: f.Links, Ports: f.Ports}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return g, nil
}

// ParseTree reads the JSON form of a Tree and validates it.
func ParseTree(data []byte) (Tree, error) {
	var t Tree
	if err := parse(data, &t); err != nil {
		return Tree{}, fmt.Errorf("topo: tree: %w", err)
	}
	if len(t.Parent) > MaxRanks {
		return Tree{}, fmt.Errorf("topo: tree of %d ranks, want 1..%d", len(t.Parent), MaxRanks)
	}
	return t, t.Validate(len(t.Parent))
}

// parse decodes exactly one JSON value with known fields only.
func parse(data []byte, into any) error {
	if len(data) > MaxGraphBytes {
		return fmt.Errorf("%d bytes of JSON, want at most %d", len(data), MaxGraphBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("the JSON text ends too early, after %d bytes: is the file cut off?", len(data))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: %w", position(data, syntax.Offset), err)
	case err != nil:
		return plain(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%s: more text behind the JSON value", position(data, d.InputOffset()))
	}
	return nil
}

// position names a byte of data as people count: lines and columns from 1.
func position(data []byte, offset int64) string {
	before := data[:min(int(offset), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}

// AppendJSON appends the canonical JSON form of g to b: links and ports
// sorted, the lower rank of a link first, numbers in their shortest form. The
// same graph gives the same bytes, in whatever order it was put together. The
// error is for NaN and infinite numbers, which Validate refuses too.
func (g *Graph) AppendJSON(b []byte) ([]byte, error) {
	f := graphFile{Name: g.Name, Ranks: g.Ranks, Hosts: g.Hosts, Links: slices.Clone(g.Links), Ports: slices.Clone(g.Ports)}
	if f.Links == nil {
		f.Links = list[Link]{}
	}
	for i, l := range f.Links {
		f.Links[i].A, f.Links[i].B = min(l.A, l.B), max(l.A, l.B)
	}
	slices.SortStableFunc(f.Links, func(x, y Link) int { return cmp.Or(x.A-y.A, x.B-y.B) })
	for i, p := range f.Ports {
		f.Ports[i].Ranks = slices.Sorted(slices.Values(p.Ranks))
	}
	slices.SortStableFunc(f.Ports, func(x, y Port) int { return cmp.Compare(x.Name, y.Name) })
	data, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("topo: graph %q: %w", g.Name, err)
	}
	return append(b, data...), nil
}

// Digest is short for the canonical JSON form: 16 hexadecimal digits of its
// SHA-256. It tells graphs that differ by accident apart; it is no protection
// against somebody who means to deceive. g must be valid.
func (g *Graph) Digest() string {
	data, err := g.AppendJSON(nil)
	if err != nil {
		data = []byte(err.Error()) // not valid: still not the digest of any valid graph
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
