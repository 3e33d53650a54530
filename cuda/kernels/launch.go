package kernels

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
)

// ErrArgument is wrapped by the error of a call with an argument that makes no
// sense: an unknown type or operation, a negative number of elements, an address
// that is 0 or between two elements. Nothing was put into the stream then.
var ErrArgument = errors.New("wrong argument")

// Arrays are the results and sources of a reduction, of N elements each.
type Arrays struct {
	Dst, Dst2 cuda.Addr // Dst2 is 0 where one result is enough
	A, B, C   cuda.Addr // C is 0 where there are two sources
	N         int64
}

// Reduce computes Dst[i] = Dst2[i] = (A[i] op B[i]) op C[i].
func (s *Set) Reduce(stream *cuda.Stream, op Op, d DType, a Arrays) error {
	if !op.Valid() || !d.Valid() {
		return fmt.Errorf("kernels: %v of %v: %w", op, d, ErrArgument)
	}
	if err := check(op.String(), d, a.N, a.Dst, a.A, a.B); err != nil || a.N == 0 {
		return err
	}
	if err := check(op.String(), d, a.N, or(a.Dst2, a.Dst), or(a.C, a.A)); err != nil {
		return err
	}
	t, err := s.of(d)
	if err != nil {
		return err
	}
	return s.launch(stream, t.reduce[op], a.N*dtypes[d].size,
		uint64(a.Dst), uint64(a.Dst2), uint64(a.A), uint64(a.B), uint64(a.C), uint64(a.N))
}

// Reduce2 computes dst[i] = a[i] op b[i] for n elements.
func (s *Set) Reduce2(stream *cuda.Stream, op Op, d DType, dst, a, b cuda.Addr, n int64) error {
	return s.Reduce(stream, op, d, Arrays{Dst: dst, A: a, B: b, N: n})
}

// Reduce3 computes dst[i] = (a[i] op b[i]) op c[i] for n elements.
func (s *Set) Reduce3(stream *cuda.Stream, op Op, d DType, dst, a, b, c cuda.Addr, n int64) error {
	if c == 0 && n > 0 {
		return fmt.Errorf("kernels: %v of three arrays: the address of the third is 0: %w", op, ErrArgument)
	}
	return s.Reduce(stream, op, d, Arrays{Dst: dst, A: a, B: b, C: c, N: n})
}

// ReduceForward computes dst[i] = dst2[i] = a[i] op b[i] for n elements: the
// second result may be the memory of whoever needs it next.
func (s *Set) ReduceForward(stream *cuda.Stream, op Op, d DType, dst, dst2, a, b cuda.Addr, n int64) error {
	if dst2 == 0 && n > 0 {
		return fmt.Errorf("kernels: %v, forwarded: the address of the second result is 0: %w", op, ErrArgument)
	}
	return s.Reduce(stream, op, d, Arrays{Dst: dst, Dst2: dst2, A: a, B: b, N: n})
}

// Copy copies n bytes from src to dst.
func (s *Set) Copy(stream *cuda.Stream, dst, src cuda.Addr, n int64) error {
	return s.copyTo(stream, dst, 0, src, n)
}

// CopyForward copies n bytes from src to dst and to dst2.
func (s *Set) CopyForward(stream *cuda.Stream, dst, dst2, src cuda.Addr, n int64) error {
	if dst2 == 0 && n > 0 {
		return fmt.Errorf("kernels: copy, forwarded: the address of the second result is 0: %w", ErrArgument)
	}
	return s.copyTo(stream, dst, dst2, src, n)
}

func (s *Set) copyTo(stream *cuda.Stream, dst, dst2, src cuda.Addr, n int64) error {
	if err := check("copy", Uint8, n, dst, src); err != nil || n == 0 {
		return err
	}
	return s.launch(stream, s.copy, n, uint64(dst), uint64(dst2), uint64(src), 0, 0, uint64(n))
}

// Scale divides n elements by divisor, which is at least 1: the end of an Avg
// of as many addends. dst may be src. Integers are divided with truncation
// toward zero; floating-point numbers by divisor as their own type, or as
// float32 where they are narrower. A divisor of 1 leaves every bit as it is.
func (s *Set) Scale(stream *cuda.Stream, d DType, dst, src cuda.Addr, n, divisor int64) error {
	if !d.Valid() || divisor < 1 {
		return fmt.Errorf("kernels: %v divided by %d: %w", d, divisor, ErrArgument)
	}
	if err := check("division", d, n, dst, src); err != nil || n == 0 || divisor == 1 && dst == src {
		return err
	}
	if divisor == 1 {
		return s.Copy(stream, dst, src, n*dtypes[d].size)
	}
	t, err := s.of(d)
	if err != nil {
		return err
	}
	return s.launch(stream, t.divide, n*dtypes[d].size, uint64(dst), uint64(src), uint64(n), uint64(divisor))
}

// ScaleCopy computes dst[i] = src[i] * factor for n elements: what a rank does to
// its input before a pre-multiplied sum. factor begins with one element of type
// d; its other bytes do not count. The result has the bits of a Prod.
func (s *Set) ScaleCopy(stream *cuda.Stream, d DType, dst, src cuda.Addr, n int64, factor [8]byte) error {
	if !d.Valid() {
		return fmt.Errorf("kernels: multiply %v: %w", d, ErrArgument)
	}
	if err := check("product", d, n, dst, src); err != nil || n == 0 {
		return err
	}
	t, err := s.of(d)
	if err != nil {
		return err
	}
	return s.launch(stream, t.multiply, n*dtypes[d].size, uint64(dst), uint64(src), uint64(n),
		binary.LittleEndian.Uint64(factor[:]))
}

// check refuses addresses at which there can be no n elements.
func check(what string, d DType, n int64, list ...cuda.Addr) error {
	size := uint64(dtypes[d].size)
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

func or(a, b cuda.Addr) cuda.Addr {
	if a != 0 {
		return a
	}
	return b
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
