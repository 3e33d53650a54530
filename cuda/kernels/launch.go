package kernels

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// ErrArgument is wrapped by the error of a call with an argument that makes no
// sense: an unknown type or operation, a negative number of elements, an address
// that is 0 or between two elements. Nothing was put into the stream then.
var ErrArgument = errors.New("wrong argument")

// Reduce computes dst[i] = dst2[i] = (a[i] op b[i]) op c[i] for n elements. dst2 is 0
// where one result is enough, c where there are two sources. dst2 may be the memory of
// whoever needs the result next.
func (s *Set) Reduce(stream *cuda.Stream, op kernel.Op, d kernel.DType, dst, dst2, a, b, c cuda.Addr, n int64) error {
	if !op.Valid() {
		return fmt.Errorf("kernels: %v of %v: %w", op, d, ErrArgument)
	}
	t, err := s.typed(op.String(), d, n, dst, cmp.Or(dst2, dst), a, b, cmp.Or(c, a))
	if err != nil || n == 0 {
		return err
	}
	return s.launch(stream, t.reduce[op], n*int64(d.Size()), uint64(dst), uint64(dst2), uint64(a), uint64(b), uint64(c),
		uint64(n))
}

// Copy copies n bytes from src to dst and, unless that is 0, to dst2.
func (s *Set) Copy(stream *cuda.Stream, dst, dst2, src cuda.Addr, n int64) error {
	if err := check("copy", kernel.Uint8, n, dst, src); err != nil || n == 0 {
		return err
	}
	return s.launch(stream, s.copy, n, uint64(dst), uint64(dst2), uint64(src), 0, 0, uint64(n))
}

// Divide divides n elements by divisor, which is at least 1: the end of an Avg
// of as many addends. dst may be src. Integers are divided with truncation
// toward zero; floating-point numbers by divisor as their own type, or as
// float32 where they are narrower. A divisor of 1 leaves every bit as it is.
func (s *Set) Divide(stream *cuda.Stream, d kernel.DType, dst, src cuda.Addr, n, divisor int64) error {
	t, err := s.typed("division", d, n, dst, src)
	switch {
	case err != nil || n == 0:
		return err
	case divisor < 1:
		return fmt.Errorf("kernels: %v divided by %d: %w", d, divisor, ErrArgument)
	case divisor == 1:
		return s.Copy(stream, dst, 0, src, n*int64(d.Size()))
	}
	return s.launch(stream, t.divide, n*int64(d.Size()), uint64(dst), uint64(src), uint64(n), uint64(divisor))
}

// Multiply computes dst[i] = src[i] * factor for n elements: what a rank does to
// its input before a pre-multiplied sum. factor begins with one element of type
// d; its other bytes do not count. The result has the bits of a Prod.
func (s *Set) Multiply(stream *cuda.Stream, d kernel.DType, dst, src cuda.Addr, n int64, factor [8]byte) error {
	t, err := s.typed("product", d, n, dst, src)
	if err != nil || n == 0 {
		return err
	}
	return s.launch(stream, t.multiply, n*int64(d.Size()), uint64(dst), uint64(src), uint64(n),
		binary.LittleEndian.Uint64(factor[:]))
}

// typed returns the kernels of a type for arrays of n elements at some addresses, and
// refuses what check does.
func (s *Set) typed(what string, d kernel.DType, n int64, list ...cuda.Addr) (*typed, error) {
	if !d.OnDevice() || s.types[d] == nil {
		return nil, fmt.Errorf("kernels: %s of %v, which is not loaded: %w", what, d, ErrArgument)
	}
	return s.types[d], check(what, d, n, list...)
}

// check refuses addresses at which there can be no n elements.
func check(what string, d kernel.DType, n int64, list ...cuda.Addr) error {
	size := uint64(d.Size())
	if n < 0 || uint64(n) > 1<<62/size {
		return fmt.Errorf("kernels: %s of %d elements of %v: %w", what, n, d, ErrArgument)
	}
	for _, a := range list {
		if n > 0 && (a == 0 || uint64(a)%size != 0) {
			return fmt.Errorf("kernels: %s of %d elements of %v at address %#x: %w", what, n, d, uint64(a), ErrArgument)
		}
	}
	return nil
}

const (
	blockThreads   = 256 // as device.h tells the compiler
	residentBlocks = 8   // that a multiprocessor has at the same time, at most
	threadBytes    = 32  // worth one thread more
)

// launch runs k on arrays of that many bytes, with as many threads as are of use:
// up to what the device runs at the same time. Each takes its share of any size.
func (s *Set) launch(stream *cuda.Stream, k *cuda.Kernel, bytes int64, args ...uint64) error {
	var buffer [64]byte
	packed := buffer[:0]
	for _, a := range args {
		packed = binary.LittleEndian.AppendUint64(packed, a)
	}
	grid := min((bytes-1)/(blockThreads*threadBytes)+1, int64(s.device.Multiprocessors())*residentBlocks)
	return stream.Launch(k, uint32(max(grid, 1)), blockThreads, packed)
}
