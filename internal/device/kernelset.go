package device

import (
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/kernel"
)

// KernelSet gives internal/device the kernels of package kernels: types and
// operations have the same numbers in both.
type KernelSet struct{ *kernels.Set }

// LoadKernels loads all kernels: later, with streams that wait for other ranks,
// the driver may not get to it.
func LoadKernels(dev *cuda.Device) (*KernelSet, error) {
	set, err := kernels.Load(dev)
	if err != nil {
		return nil, err
	}
	k := &KernelSet{set}
	for d := kernel.Int8; d.Valid(); d++ {
		if err := set.Prepare(kernels.DType(d)); err != nil {
			_ = set.Close()
			return nil, err
		}
	}
	return k, nil
}

// Copy is Kernels.Copy.
func (k *KernelSet) Copy(s *cuda.Stream, dst, dst2, src cuda.Addr, n int64) error {
	if dst2 == 0 {
		return k.Set.Copy(s, dst, src, n)
	}
	return k.CopyForward(s, dst, dst2, src, n)
}

// Reduce is Kernels.Reduce.
func (k *KernelSet) Reduce(s *cuda.Stream, op kernel.Op, d kernel.DType, dst, dst2, a, b, c cuda.Addr,
	n int64) error {
	return k.Set.Reduce(s, kernels.Op(op), kernels.DType(d), kernels.Arrays{Dst: dst, Dst2: dst2, A: a, B: b, C: c, N: n})
}

// Multiply is Kernels.Multiply.
func (k *KernelSet) Multiply(s *cuda.Stream, d kernel.DType, dst, src cuda.Addr, factor [8]byte, n int64) error {
	return k.ScaleCopy(s, kernels.DType(d), dst, src, n, factor)
}

// Divide is Kernels.Divide.
func (k *KernelSet) Divide(s *cuda.Stream, d kernel.DType, dst cuda.Addr, by int, n int64) error {
	return k.Scale(s, kernels.DType(d), dst, dst, n, int64(by))
}
