//go:build linux

package host

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// reader is a reader of an Input that fails after some bytes, and does something with each write.
type reader struct {
	got    bytes.Buffer
	limit  int // 0: none
	write  func()
	closed int
}

func (r *reader) Write(p []byte) (int, error) {
	if r.write != nil {
		r.write()
	}
	if r.limit > 0 && r.got.Len()+len(p) > r.limit {
		return 0, errors.New("it has ended")
	}
	return r.got.Write(p)
}

func (r *reader) Close() error {
	r.closed++
	return nil
}

// All readers get all of the input. One that ends gets no more, one that comes later gets the rest, and one that comes
// after the end gets nothing. Each is closed once.
func TestInput(t *testing.T) {
	const chunk = 64 << 10
	text := strings.Repeat("x", 3*chunk)
	in := new(Input)
	late := new(reader)
	first := &reader{write: func() {
		if !slices.Contains(in.readers(), io.WriteCloser(late)) {
			in.Add(late)
		}
	}}
	ends := &reader{limit: chunk}
	in.Add(first)
	in.Add(ends)
	in.Copy(strings.NewReader(text), false)
	after := new(reader)
	in.Add(after)
	for name, c := range map[string]struct {
		r    *reader
		want int
	}{"first": {first, 3 * chunk}, "ends": {ends, chunk}, "late": {late, 2 * chunk}, "after": {after, 0}} {
		if c.r.got.Len() != c.want || c.r.closed != 1 {
			t.Errorf("%s: %d bytes, closed %d times, want %d, once", name, c.r.got.Len(), c.r.closed, c.want)
		}
	}
}

// Without readers the input is not read to its end, unless more may come.
func TestInputWithoutReaders(t *testing.T) {
	for _, more := range []bool{false, true} {
		in := new(Input)
		in.Add(&reader{limit: 1})
		src := strings.NewReader(strings.Repeat("x", 1<<20))
		in.Copy(src, more)
		if read := src.Len() == 0; read != more {
			t.Errorf("more readers may come: %v, and %d bytes are left", more, src.Len())
		}
	}
}
