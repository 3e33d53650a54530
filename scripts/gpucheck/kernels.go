package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
)

// kernelRate is how quickly a kernel moves bytes, read plus written, and the share of
// the rate at which the device copies its own memory.
type kernelRate struct {
	Kernel string  `json:"kernel"`
	GBs    float64 `json:"gbytes_per_second"`
	Share  float64 `json:"share_of_copy"`
}

// kernelRates measures the kernels on arrays of so many bytes, beside the driver's
// own copy of as many in the same run.
func kernelRates(ctx context.Context, dev *cuda.Device, bytes int64) (copyGBs float64, rates []kernelRate, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	set, err := kernels.Load(dev)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	var x [5]cuda.Slice[uint8]
	for i := range x {
		if x[i], err = cuda.Alloc[uint8](dev, int(bytes)); err != nil {
			return 0, nil, err
		}
		defer func() { err = errors.Join(err, x[i].Free()) }()
		if err := s.Memset(x[i].Addr(), 0, bytes); err != nil {
			return 0, nil, err
		}
	}
	a, b, c, d, e := x[0].Addr(), x[1].Addr(), x[2].Addr(), x[3].Addr(), x[4].Addr()
	const rounds = 20
	rate := func(arrays int64, enqueue func() error) (float64, error) {
		seconds, err := onStream(ctx, s, rounds, enqueue)
		return float64(arrays*bytes) / seconds / 1e9, err
	}
	if copyGBs, err = rate(2, func() error { return s.Memcpy(a, b, bytes) }); err != nil {
		return 0, nil, err
	}
	for _, k := range []struct {
		name   string
		arrays int64 // read plus written
		run    func() error
	}{
		{"copy", 2, func() error { return set.Copy(s, a, b, bytes) }},
		{"copy and forward", 3, func() error { return set.CopyForward(s, a, b, c, bytes) }},
		{"sum of 2 float32", 3, func() error { return set.Reduce2(s, kernels.Sum, kernels.Float32, a, b, c, bytes/4) }},
		{"sum of 3 float32", 4, func() error { return set.Reduce3(s, kernels.Sum, kernels.Float32, a, b, c, d, bytes/4) }},
		{"sum of 2 float32, forwarded", 4, func() error {
			return set.ReduceForward(s, kernels.Sum, kernels.Float32, a, b, c,
				d, bytes/4)
		}},
		{"sum of 3 float32, forwarded", 5, func() error {
			return set.Reduce(s, kernels.Sum, kernels.Float32, kernels.Arrays{Dst: a, Dst2: b, A: c, B: d, C: e, N: bytes / 4})
		}},
		{"sum of 2 bfloat16", 3, func() error { return set.Reduce2(s, kernels.Sum, kernels.BFloat16, a, b, c, bytes/2) }},
		{"sum of 2 float64", 3, func() error { return set.Reduce2(s, kernels.Sum, kernels.Float64, a, b, c, bytes/8) }},
		{"max of 2 int8", 3, func() error { return set.Reduce2(s, kernels.Max, kernels.Int8, a, b, c, bytes) }},
	} {
		gbs, err := rate(k.arrays, k.run)
		if err != nil {
			return 0, nil, fmt.Errorf("kernel %s: %w", k.name, err)
		}
		rates = append(rates, kernelRate{k.name, gbs, gbs / copyGBs})
	}
	return copyGBs, rates, nil
}

// kernelsAreRight compares reductions of random float32 and float64 with what the
// host computes in float64, rounded once, at many lengths and from odd elements on.
// It returns how many elements it has compared.
func kernelsAreRight(ctx context.Context, dev *cuda.Device) (compared int64, err error) {
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	set, err := kernels.Load(dev)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	for _, n := range []int{1, 2, 3, 5, 31, 64, 1021, 65536, 1 << 20} {
		for _, shift := range []int{0, 1, 3} {
			for _, op := range []kernels.Op{kernels.Sum, kernels.Prod, kernels.Min, kernels.Max} {
				a, err := kernelIsRight[float32](ctx, s, set, kernels.Float32, op, n, shift)
				if err == nil {
					_, err = kernelIsRight[float64](ctx, s, set, kernels.Float64, op, n, shift)
				}
				if err != nil {
					return compared, fmt.Errorf("%v of %d elements from element %d on: %w", op, n, shift, err)
				}
				compared += 2 * a
			}
		}
	}
	return compared, nil
}

func kernelIsRight[T float32 | float64](ctx context.Context, s *cuda.Stream, set *kernels.Set, d kernels.DType,
	op kernels.Op, n, shift int) (compared int64, err error) {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(shift)))
	var host [3][]T
	var dev [4]cuda.Slice[T]
	for i := range dev {
		if dev[i], err = cuda.Alloc[T](s.Device(), n+shift+1); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, dev[i].Free()) }()
		if i == len(host) {
			break
		}
		host[i] = make([]T, n+shift+1)
		for j := range host[i] {
			host[i][j] = T(math.Ldexp(rng.Float64()-0.5, rng.IntN(20)))
		}
		if err := dev[i].CopyFrom(ctx, s, host[i]); err != nil {
			return 0, err
		}
	}
	part := func(x cuda.Slice[T]) cuda.Addr { return x.Slice(shift, shift+n).Addr() }
	if err := s.Memset(dev[3].Addr(), 0xa5, dev[3].Bytes()); err != nil {
		return 0, err
	}
	if err := set.Reduce3(s, op, d, part(dev[3]), part(dev[0]), part(dev[1]), part(dev[2]), int64(n)); err != nil {
		return 0, err
	}
	got := make([]T, n+shift+1)
	if err := dev[3].CopyTo(ctx, s, got); err != nil {
		return 0, err
	}
	for j := range n {
		want := combine(op, combine(op, host[0][shift+j], host[1][shift+j]), host[2][shift+j])
		if got[shift+j] != want {
			return 0, fmt.Errorf("element %d is %v, want %v", j, got[shift+j], want)
		}
	}
	return int64(n), nil
}

// combine computes in float64 and rounds to T: for float32 that is the correctly
// rounded result, as float64 has more than twice its digits.
func combine[T float32 | float64](op kernels.Op, a, b T) T {
	x, y := float64(a), float64(b)
	switch op {
	case kernels.Sum:
		return T(x + y)
	case kernels.Prod:
		return T(x * y)
	case kernels.Min:
		return T(min(x, y))
	}
	return T(max(x, y))
}
