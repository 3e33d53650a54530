package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
)

// guard is how many elements lie before and behind every buffer, and are compared,
// too. Buffers do not begin at a multiple of 16 bytes.
const guard = 67

// voteEvery is after how many cases the ranks ask each other whether it is time to end.
const voteEvery = 8

// matrix makes the cases of a sample, the same on all ranks, or all cases, until a rank
// has worked so long, 0 for no limit, and compares all memory with the oracle. It
// returns how many there were.
func matrix(ctx context.Context, c *collective.Comm, s *cuda.Stream, sample int, seed uint64, most time.Duration) (int,
	error) {
	began := time.Now()
	cases := allCases(c.Size())
	if sample > 0 && sample < len(cases) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = cases[:sample]
	}
	for i := range cases {
		if most > 0 && i%voteEvery == 0 {
			longest := []int64{int64(time.Since(began))}
			if err := collective.AllReduce(ctx, c, longest, longest, collective.Max); err != nil {
				return i, err
			}
			if longest[0] > int64(most) {
				return i, nil
			}
		}
		if err := try(ctx, c, s, &cases[i]); err != nil {
			return i, fmt.Errorf("case %d, %v: %w", i, &cases[i], err)
		}
	}
	return len(cases), nil
}

func try(ctx context.Context, c *collective.Comm, s *cuda.Stream, k *testCase) error {
	switch k.Type {
	case "int8":
		return tryTyped[int8](ctx, c, s, k)
	case "uint8":
		return tryTyped[uint8](ctx, c, s, k)
	case "int32":
		return tryTyped[int32](ctx, c, s, k)
	case "uint32":
		return tryTyped[uint32](ctx, c, s, k)
	case "int64":
		return tryTyped[int64](ctx, c, s, k)
	case "uint64":
		return tryTyped[uint64](ctx, c, s, k)
	case "float16":
		return tryTyped[collective.Float16](ctx, c, s, k)
	case "bfloat16":
		return tryTyped[collective.BFloat16](ctx, c, s, k)
	case "float32":
		return tryTyped[float32](ctx, c, s, k)
	}
	return tryTyped[float64](ctx, c, s, k)
}

// memory is a buffer between guards, on the host as it must be and on the device.
type memory[T collective.Number] struct {
	want   []T
	device cuda.Slice[T]
}

func newMemory[T collective.Number](dev *cuda.Device, n int) (*memory[T], error) {
	m := &memory[T]{want: make([]T, n+2*guard)}
	for i := range m.want {
		m.want[i] = number[T](int64(3 + i%7))
	}
	var err error
	m.device, err = cuda.Alloc[T](dev, len(m.want))
	return m, err
}

// set writes n elements of what f gives from element at on.
func (m *memory[T]) set(at, n int, f func(i int) int64) {
	for i := range n {
		m.want[guard+at+i] = number[T](f(i))
	}
}

func (m *memory[T]) slice(at, n int) cuda.Slice[T] { return m.device.Slice(guard+at, guard+at+n) }

// check compares what is on the device with what must be there.
func (m *memory[T]) check(ctx context.Context, s *cuda.Stream) error {
	got := make([]T, len(m.want))
	if err := m.device.CopyTo(ctx, s, got); err != nil {
		return err
	}
	for i := range got {
		if got[i] != m.want[i] {
			return fmt.Errorf("element %d is %v, want %v", i-guard, got[i], m.want[i])
		}
	}
	return nil
}

// tryTyped makes one call and compares.
func tryTyped[T collective.Number](ctx context.Context, c *collective.Comm, s *cuda.Stream, k *testCase) (err error) {
	me, n := c.Rank(), c.Size()
	send, recv := k.lengths(me, n)
	in, err := newMemory[T](s.Device(), max(send, recv))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.device.Free()) }()
	out, from, to := in, 0, 0
	switch {
	case !k.InPlace:
		if out, err = newMemory[T](s.Device(), recv); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.device.Free()) }()
	case send < recv:
		from = me * send
	case recv < send:
		to = me * recv
	}
	if k.Registered {
		unregister, failed := register(ctx, c, in, out)
		defer func() { err = errors.Join(err, unregister()) }()
		if failed != nil {
			return failed
		}
	}
	in.set(from, send, func(i int) int64 { return value(k.Op, me, i, n) })
	for _, m := range []*memory[T]{in, out} {
		if err := m.device.CopyFrom(ctx, s, m.want); err != nil {
			return err
		}
	}
	for _, b := range k.blocks(me, n) {
		out.set(to+b.at, b.count, func(i int) int64 {
			if b.from >= 0 {
				return value(k.Op, b.from, b.offset+i, n)
			}
			return combined(k.Op, b.offset+i, n)
		})
	}
	if err := call(ctx, c, s, k, in.slice(from, send), out.slice(to, recv)); err != nil {
		return err
	}
	if err := c.SyncDevice(ctx, s); err != nil {
		return err
	}
	return errors.Join(in.check(ctx, s), out.check(ctx, s))
}

// register registers the memory of all ranks; unregister takes back what was done.
func register[T collective.Number](ctx context.Context, c *collective.Comm, in,
	out *memory[T]) (unregister func() error, err error) {
	var done []*collective.DeviceMemory
	unregister = func() error {
		var errs []error
		for _, m := range slices.Backward(done) {
			errs = append(errs, m.Close(ctx))
		}
		return errors.Join(errs...)
	}
	for i, m := range []*memory[T]{in, out} {
		if i > 0 && out == in {
			break
		}
		registered, err := collective.RegisterDevice(ctx, c, m.device)
		if err != nil {
			return unregister, err
		}
		done = append(done, registered)
	}
	return unregister, nil
}

func call[T collective.Number](ctx context.Context, c *collective.Comm, s *cuda.Stream, k *testCase, send,
	recv cuda.Slice[T]) error {
	op := map[string]collective.Op{"sum": collective.Sum, "prod": collective.Prod, "min": collective.Min,
		"max": collective.Max, "avg": collective.Avg}[k.Op]
	f := number[T](factor(c.Rank()))
	switch premul := k.Op == "premul"; {
	case k.Kind == "allreduce" && premul:
		return collective.AllReducePreMulDevice(ctx, c, s, send, recv, f)
	case k.Kind == "reduce" && premul:
		return collective.ReducePreMulDevice(ctx, c, s, send, recv, f, k.Root)
	case k.Kind == "reducescatter" && premul:
		return collective.ReduceScatterPreMulDevice(ctx, c, s, send, recv, f)
	}
	switch k.Kind {
	case "allreduce":
		return collective.AllReduceDevice(ctx, c, s, send, recv, op)
	case "reduce":
		return collective.ReduceDevice(ctx, c, s, send, recv, op, k.Root)
	case "broadcast":
		return collective.BroadcastDevice(ctx, c, s, send, recv, k.Root)
	case "allgather":
		return collective.AllGatherDevice(ctx, c, s, send, recv)
	}
	return collective.ReduceScatterDevice(ctx, c, s, send, recv, op)
}
