package devices

import (
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// Buffer is a slice of any type in device memory. The zero value is none.
type Buffer struct {
	Name   string // "send"
	Device *cuda.Device
	Addr   cuda.Addr
	Count  int
	Bytes  int64
	Err    error // why it cannot be used, if it cannot
	Slice  any   // the memory stays as long as this is in use
}

// BufferOf returns s as a buffer that errors call by a name.
func BufferOf[T cuda.Number](name string, s cuda.Slice[T]) Buffer {
	return Buffer{name, s.Device(), s.Addr(), s.Len(), s.Bytes(), s.Check(), s}
}

// Span returns the buffer as checks see it.
func (b Buffer) Span() kernel.Span {
	return kernel.Span{Addr: uint64(b.Addr), Count: b.Count, Bytes: int(b.Bytes)}
}

// Problem returns why a call cannot be made on s with some buffers, nil if it can.
func Problem(s *cuda.Stream, buffers ...Buffer) error {
	if s == nil || s.Device() == nil {
		return errors.New("no stream")
	}
	err := s.CheckUncaptured()
	for _, b := range buffers {
		switch {
		case err != nil:
			return err
		case b.Err != nil:
			return fmt.Errorf("%s: %w", b.Name, b.Err)
		case b.Count > 0 && b.Device != s.Device():
			return fmt.Errorf("%s is memory of %v, the stream is one of %v", b.Name, b.Device, s.Device())
		case b.Count > 0 && b.Addr == 0:
			return fmt.Errorf("%s is no device memory", b.Name)
		}
	}
	return err
}
