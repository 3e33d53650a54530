package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse"
	"github.com/treerun/treerun/cuda"
)

// sparseCalls makes AllReduces of tensors that are mostly zero, in every form, with
// every type, in place and not, and compares all memory with the oracle. It returns
// how many.
func sparseCalls(ctx context.Context, c *collective.Comm, s *cuda.Stream) (calls int, err error) {
	for _, form := range []sparse.Form{sparse.Trees, sparse.Aggregators, sparse.Dense, sparse.ByPrice} {
		for _, count := range []int{1, 1000, 100003} {
			for _, inPlace := range []bool{false, true} {
				for _, try := range []func(context.Context, *collective.Comm, *cuda.Stream, *sparseCase) error{
					trySparse[int32], trySparse[int64], trySparse[float32], trySparse[float64], trySparse[collective.Float16],
					trySparse[collective.BFloat16],
				} {
					k := sparseCase{form: form, count: count, block: []int{256, 33}[calls%2], inPlace: inPlace, seed: uint64(calls)}
					if err := try(ctx, c, s, &k); err != nil {
						return calls, fmt.Errorf("sparse call %d, %+v: %w", calls, k, err)
					}
					calls++
				}
			}
		}
	}
	return calls, nil
}

type sparseCase struct {
	form         sparse.Form
	count, block int
	inPlace      bool
	seed         uint64
}

// has tells whether a block of a rank's tensor is not zero.
func (k *sparseCase) has(rank, block int) bool {
	return rand.New(rand.NewPCG(k.seed, uint64(rank)<<32|uint64(block))).IntN(10) == 0
}

// value is element i of what a rank gives.
func (k *sparseCase) value(rank, i, n int) int64 {
	if k.has(rank, i/k.block) {
		return value("sum", rank, i, n)
	}
	return 0
}

// trySparse makes one call and compares.
func trySparse[T sparse.Number](ctx context.Context, c *collective.Comm, s *cuda.Stream, k *sparseCase) (err error) {
	in, err := newMemory[T](s.Device(), k.count)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.device.Free()) }()
	out := in
	if !k.inPlace {
		if out, err = newMemory[T](s.Device(), k.count); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.device.Free()) }()
	}
	in.set(0, k.count, func(i int) int64 { return k.value(c.Rank(), i, c.Size()) })
	for _, m := range []*memory[T]{in, out} {
		if err := m.device.CopyFrom(ctx, s, m.want); err != nil {
			return err
		}
	}
	out.set(0, k.count, func(i int) (total int64) {
		for r := range c.Size() {
			total += k.value(r, i, c.Size())
		}
		return total
	})
	st, err := sparse.AllReduceDevice(ctx, c, s, in.slice(0, k.count), out.slice(0, k.count), collective.Sum,
		sparse.Use(k.form), sparse.BlockSize(k.block))
	if err != nil {
		return err
	}
	if err := c.SyncDevice(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(in.check(ctx, s), out.check(ctx, s)); err != nil {
		return fmt.Errorf("ran as %v: %w", st, err)
	}
	return nil
}

// sparse makes sparse calls on the first GPU.
func (k *checker) sparse() (string, error) {
	out, _, err := k.job(0, onOne(2), "sparse")
	return strings.TrimSpace(out), err
}
