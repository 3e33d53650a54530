//go:build linux

package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// LineWriter is a connection whose writes are whole lines: the length of the data, the data, and a newline. A program
// that passes on the output of another by lines, as srun does, then holds nothing back. One goroutine writes.
type LineWriter struct {
	io.ReadWriteCloser
	line []byte
}

// maxLine is the maximum length of the data of a line, in bytes.
const maxLine = 1 << 20

// Write writes b as one line, or as several.
func (w *LineWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), maxLine)]
		w.line = append(binary.BigEndian.AppendUint32(w.line[:0], uint32(len(part))), part...)
		if _, err := w.ReadWriteCloser.Write(append(w.line, '\n')); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// LineReader reads what a LineWriter has written, behind a line that ReadHello has read: only the newline of that
// remains.
type LineReader struct {
	r    *bufio.Reader
	left int // bytes of the line before its newline
}

// NewLineReader returns a LineReader of r.
func NewLineReader(r *bufio.Reader) *LineReader { return &LineReader{r: r} }

// Read returns data of one line.
func (l *LineReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if l.left == 0 {
		var head [5]byte // the newline of the line before, and the length
		if _, err := io.ReadFull(l.r, head[:]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && head[0] == '\n' {
				err = io.EOF
			}
			return 0, err
		}
		n := binary.BigEndian.Uint32(head[1:])
		if head[0] != '\n' || n == 0 || n > maxLine {
			return 0, fmt.Errorf("%w: its output was changed on the way: %q", ErrProtocol, head)
		}
		l.left = int(n)
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
