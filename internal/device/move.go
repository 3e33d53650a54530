package device

import (
	"slices"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
)

// Kernels are the kernels of one device, enqueued on a stream of it. n counts
// elements, or bytes in Copy; addresses that are 0 are left out. *kernels.Set has them.
type Kernels interface {
	Copy(s *cuda.Stream, dst, dst2, src cuda.Addr, n int64) error
	Reduce(s *cuda.Stream, op kernel.Op, dtype kernel.DType, dst, dst2, a, b, c cuda.Addr, n int64) error
	Multiply(s *cuda.Stream, dtype kernel.DType, dst, src cuda.Addr, n int64, factor [8]byte) error
	Divide(s *cuda.Stream, dtype kernel.DType, dst, src cuda.Addr, n, divisor int64) error
}

// mover enqueues the kernels of one step, for n bytes.
type mover struct {
	g     *Group
	s     *lineup
	dtype kernel.DType
	op    kernel.Op
	n     int64
	track int
}

// A kernel reads up to three arrays and writes one or two.
const (
	most  = 3
	twice = 2
)

// combine computes args from left to right, and stores the value at every
// address of to. args and to may share addresses.
func (m *mover) combine(args, to []cuda.Addr) error {
	if len(to) == 0 {
		return nil
	}
	if len(args) == 1 {
		return m.copies(to, args[0])
	}
	first := to[:min(len(to), twice)]
	if len(args) > most {
		acc := to[0]
		if slices.Contains(args[most:], acc) {
			acc = m.g.scratch.at(m.track, scratchSum) // it would be lost before its turn
		}
		if err := m.launch([]cuda.Addr{acc}, args[:most]); err != nil {
			return err
		}
		for args = args[most:]; len(args) >= most; args = args[most-1:] {
			if err := m.launch([]cuda.Addr{acc}, append([]cuda.Addr{acc}, args[:most-1]...)); err != nil {
				return err
			}
		}
		args = append([]cuda.Addr{acc}, args...)
	}
	if err := m.launch(first, args); err != nil {
		return err
	}
	return m.copies(to[len(first):], to[0])
}

// copies stores what is at src at every address of to.
func (m *mover) copies(to []cuda.Addr, src cuda.Addr) error {
	var pair [twice]cuda.Addr
	for len(to) > 0 {
		n := 0
		for len(to) > 0 && n < twice {
			if to[0] != src {
				pair[n] = to[0]
				n++
			}
			to = to[1:]
		}
		if n == 0 {
			break
		}
		if err := m.launch(pair[:n], []cuda.Addr{src}); err != nil {
			return err
		}
		src = pair[0] // src may be another device's memory, this is not
	}
	return nil
}

// scaled is combine with operand i multiplied by a factor first.
func (m *mover) scaled(args, to []cuda.Addr, i int, factor [8]byte) error {
	if len(to) == 0 {
		return nil
	}
	if len(args) == 1 {
		if err := m.multiply(to[0], args[0], factor); err != nil {
			return err
		}
		return m.copies(to[1:], to[0])
	}
	product := m.g.scratch.at(m.track, scratchProduct)
	if err := m.multiply(product, args[i], factor); err != nil {
		return err
	}
	args[i] = product
	return m.combine(args, to)
}

// launch runs one kernel: one or two results of one to three operands.
func (m *mover) launch(to, args []cuda.Addr) error {
	var dst [twice]cuda.Addr
	var src [most]cuda.Addr
	copy(dst[:], to)
	copy(src[:], args)
	if len(args) == 1 {
		return m.g.cfg.Kernels.Copy(m.s.Stream, dst[0], dst[1], src[0], m.n)
	}
	return m.g.cfg.Kernels.Reduce(m.s.Stream, m.op, m.dtype, dst[0], dst[1], src[0], src[1], src[2],
		m.n/int64(m.dtype.Size()))
}

func (m *mover) multiply(dst, src cuda.Addr, factor [8]byte) error {
	return m.g.cfg.Kernels.Multiply(m.s.Stream, m.dtype, dst, src, m.n/int64(m.dtype.Size()), factor)
}
