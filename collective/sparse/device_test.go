//go:build cgo && linux

package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/rank"
)

// onDevices runs the test that calls it once more as ranks on these hosts, processes of a job of treerun on fake hosts
// with four GPUs each. There it runs body with a stream on the rank's GPU, and compares the GPU resources of the
// process before and after. It reports whether this process is a rank, and returns the error of body.
func onDevices(t *testing.T, hosts []int, body func(c *collective.Comm, s *cuda.Stream) error) (ran bool, err error) {
	t.Helper()
	return asJob(t, fakegpu.Job{Hosts: []string{"dgx1v/0-3", "dgx1v/4-7"}[:slices.Max(hosts)+1]}, hosts, body)
}

func asJob(t *testing.T, job fakegpu.Job, hosts []int, body func(c *collective.Comm, s *cuda.Stream) error) (ran bool,
	err error) {
	t.Helper()
	job.Ranks = len(hosts) / len(job.Hosts)
	if !job.Run(t) {
		return false, nil
	}
	w, err := rank.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	before := cuda.Stats()
	err = asRank(t, w, hosts, func(c *collective.Comm) error {
		all, err := cuda.Devices()
		if err != nil {
			return err
		}
		s, err := all[c.Rank()%len(all)].NewStream()
		if err != nil {
			return err
		}
		err = body(c, s)
		return errors.Join(err, c.Close(), s.Close())
	})
	after := cuda.Stats()
	before.Contexts, after.Contexts = 0, 0 // they stay
	if after != before {
		t.Errorf("left on the devices: %+v, before %+v", after, before)
	}
	return true, err
}

// mustOnDevices is onDevices for ranks that must not fail.
func mustOnDevices(t *testing.T, hosts []int, body func(c *collective.Comm, s *cuda.Stream) error) {
	t.Helper()
	if _, err := onDevices(t, hosts, body); err != nil {
		t.Fatal(err)
	}
}

// guard is the number of elements around a tensor on the device.
const guard = 5

// callOnDevice makes the call on device memory and returns the contents of send and recv afterwards. The memory of the
// result contained old before, and the memory around it must not change.
func callOnDevice[T Number](ctx context.Context, c *collective.Comm, s *cuda.Stream, send []T, old T, op collective.Op,
	inPlace bool, opts ...Option) (kept, result []T, st Stats, err error) {
	n := len(send)
	fresh := slices.Repeat([]T{old}, n+2*guard)
	with := slices.Clone(fresh)
	copy(with[guard:], send)
	x, err := cuda.Alloc[T](s.Device(), len(with))
	if err != nil {
		return nil, nil, st, err
	}
	defer func() { err = errors.Join(err, x.Free()) }()
	y := x
	if err := x.CopyFrom(ctx, s, with); err != nil {
		return nil, nil, st, err
	}
	if !inPlace {
		if y, err = cuda.Alloc[T](s.Device(), len(fresh)); err != nil {
			return nil, nil, st, err
		}
		defer func() { err = errors.Join(err, y.Free()) }()
		if err := y.CopyFrom(ctx, s, fresh); err != nil {
			return nil, nil, st, err
		}
	}
	if st, err = AllReduceDevice(ctx, c, s, x.Slice(guard, guard+n), y.Slice(guard, guard+n), op, opts...); err != nil {
		return nil, nil, st, err
	}
	if err := c.SyncDevice(ctx, s); err != nil {
		return nil, nil, st, err
	}
	after := slices.Clone(fresh)
	if err := errors.Join(x.CopyTo(ctx, s, with), y.CopyTo(ctx, s, after)); err != nil {
		return nil, nil, st, err
	}
	for _, m := range [][]T{with, after} {
		if around := append(slices.Clone(m[:guard]), m[guard+n:]...); !bytes.Equal(kernel.BytesOf(around),
			kernel.BytesOf(fresh[:2*guard])) {
			return nil, nil, st, fmt.Errorf("next to the tensor there is %v", around)
		}
	}
	return with[guard : guard+n], after[guard : guard+n], st, nil
}

// twin makes a call on host memory and the same on device memory: the results have the same bits, and the same data was
// sent.
func twin[T Number](t *testing.T, c *collective.Comm, s *cuda.Stream, p pattern, op collective.Op, count, size int,
	inPlace bool, one func(r *rand.Rand) T, opts ...Option) error {
	send := input(p, c.Rank(), c.Size(), count, size, uint64(count), one)
	want := make([]T, count)
	opts = append(opts, BlockSize(size))
	host, err := AllReduce(t.Context(), c, send, want, op, opts...)
	if err != nil {
		return err
	}
	kept, got, st, err := callOnDevice(t.Context(), c, s, send, one(rand.New(rand.NewPCG(1, 2))), op, inPlace, opts...)
	what := fmt.Sprintf("%v %s, %v of %d %v in blocks of %d, in place %v", host.Form, p.name, op, count, dtypeOf[T](),
		size, inPlace)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !inPlace && !bytes.Equal(kernel.BytesOf(kept), kernel.BytesOf(send)) {
		return fmt.Errorf("%s: send has changed", what)
	}
	if w := dtypeOf[T]().Size(); !bytes.Equal(kernel.BytesOf(got), kernel.BytesOf(want)) {
		for i := range got {
			if !bytes.Equal(kernel.BytesOf(got)[i*w:(i+1)*w], kernel.BytesOf(want)[i*w:(i+1)*w]) {
				return fmt.Errorf("%s: element %d is %v, on the host %v (%v)", what, i, got[i], want[i], st)
			}
		}
	}
	same := st.Form == host.Form && st.Blocks == host.Blocks && st.NonZero == host.NonZero && st.Union == host.Union &&
		st.Density == host.Density && st.UnionDensity == host.UnionDensity && st.SentBlocks == host.SentBlocks &&
		st.ReceivedBlocks == host.ReceivedBlocks
	if !same {
		return fmt.Errorf("%s: counted %+v, on the host %+v", what, st, host)
	}
	return nil
}

// twinOf is twin with one of the types.
func twinOf(t *testing.T, i int, c *collective.Comm, s *cuda.Stream, p pattern, op collective.Op, count, size int,
	inPlace bool, opts ...Option) error {
	switch i % 6 {
	case 0:
		return twin(t, c, s, p, op, count, size, inPlace, float32s, opts...)
	case 1:
		return twin(t, c, s, p, op, count, size, inPlace, int32s, opts...)
	case 2:
		return twin(t, c, s, p, op, count, size, inPlace, float64s, opts...)
	case 3:
		return twin(t, c, s, p, op, count, size, inPlace, int64s, opts...)
	case 4:
		return twin(t, c, s, p, op, count, size, inPlace, float16s, opts...)
	}
	return twin(t, c, s, p, op, count, size, inPlace, bfloat16s, opts...)
}

// The result on device memory equals that on host memory, bit by bit, whatever the blocks, the hosts, the type and the
// form, one call after the other.
func TestAllReduceDevice(t *testing.T) {
	layouts := [][]int{oneHost(1), oneHost(2), oneHost(5), {0, 0, 1, 1}}
	if !testutil.Thorough() {
		layouts = [][]int{oneHost(3), {0, 0, 1, 1}}
	}
	for _, hosts := range layouts {
		counts := []int{0, 1, 257, 5000, 20001}
		if slices.Max(hosts) > 0 {
			counts = counts[:4] // large ones take most of the time
		}
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			mustOnDevices(t, hosts, func(c *collective.Comm, s *cuda.Stream) error {
				i := 0
				for _, p := range patterns {
					for _, count := range counts {
						size := []int{1, 16, 256, 300}[i%4]
						if count > 6000 {
							size = max(size, 16)
						}
						forms := formsOn(hosts, Trees, Aggregators)
						form := forms[i/4%len(forms)]
						opts := []Option{Use(form)}
						if err := twinOf(t, i, c, s, p, operations[i/6%3], count, size, i/2%2 == 0, opts...); err != nil {
							return err
						}
						i++
					}
				}
				return nil
			})
		})
	}
}

// Calls follow each other on two streams, with no wait in between, and tensors grow.
func TestDeviceCallsInARow(t *testing.T) {
	mustOnDevices(t, oneHost(3), func(c *collective.Comm, s *cuda.Stream) (err error) {
		two, err := s.Device().NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, two.Close()) }()
		const calls = 12
		var all []cuda.Slice[int64]
		for k := range calls {
			host := make([]int64, 1000*(k+1))
			for i := k; i < len(host); i += 77 {
				host[i] = int64(i + c.Rank())
			}
			x, err := cuda.Alloc[int64](s.Device(), len(host))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Free()) }()
			if err := x.CopyFrom(t.Context(), s, host); err != nil {
				return err
			}
			all = append(all, x)
		}
		for k, x := range all {
			host := make([]int64, x.Len())
			host[k] = 1
			if _, err := AllReduce(t.Context(), c, host, host, collective.Sum, BlockSize(1+k), Use(Trees)); err != nil ||
				host[k] != 3 {
				return fmt.Errorf("call %d in between: %d, %w", k, host[k], err)
			}
			on := []*cuda.Stream{s, two}[k%2]
			if _, err := AllReduceDevice(t.Context(), c, on, x, x, collective.Sum, BlockSize(64), Use(Trees)); err != nil {
				return err
			}
		}
		if err := errors.Join(c.SyncDevice(t.Context(), two), c.SyncDevice(t.Context(), s)); err != nil {
			return err
		}
		for k, x := range all {
			host := make([]int64, x.Len())
			if err := x.CopyTo(t.Context(), s, host); err != nil {
				return err
			}
			for i, v := range host {
				if want := int64(3*i + 3); v != 0 && (v != want || i%77 != k%77) || v == 0 && i >= k && (i-k)%77 == 0 {
					return fmt.Errorf("call %d, element %d: %d", k, i, v)
				}
			}
		}
		return nil
	})
}

// Numbers that are almost zero are not lost on the way to a device and back, and zeros of either sign become +0: a
// block that a rank leaves out is +0, even if all ranks have -0 there.
func TestSpecialNumbersOnDevice(t *testing.T) {
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, float32(math.Copysign(0, -1))}
	mustOnDevices(t, oneHost(2), func(c *collective.Comm, s *cuda.Stream) error {
		for _, form := range []Form{Trees, Aggregators, Shared, Compact} {
			const size = 4
			send := slices.Repeat(odd[len(odd)-1:], size*20)
			for i, v := range odd {
				if c.Rank() == 1 {
					send[(2*i+3)*size+i%size] = v
				}
			}
			want := make([]float32, len(send))
			onHost := form
			if form == Compact {
				onHost = Trees
			}
			host, err := AllReduce(t.Context(), c, send, want, collective.Sum, Use(onHost), BlockSize(size))
			if err != nil {
				return err
			}
			for _, inPlace := range []bool{false, true} {
				_, got, st, err := callOnDevice(t.Context(), c, s, send, 5, collective.Sum, inPlace, Use(form), BlockSize(size))
				if err != nil {
					return err
				}
				if !bytes.Equal(kernel.BytesOf(got), kernel.BytesOf(want)) || st.Union != len(odd)-1 || host.Union != st.Union {
					return fmt.Errorf("%v: %v (%v), on the host %v (%v)", form, got, st, want, host)
				}
			}
		}
		return nil
	})
}

// A wrong argument is an error before anything is sent, and a rank that calls for host memory gets a mismatch.
func TestDeviceArguments(t *testing.T) {
	mustOnDevices(t, oneHost(2), func(c *collective.Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		all, err := cuda.Devices()
		if err != nil {
			return err
		}
		x, err := cuda.Alloc[float32](s.Device(), 100)
		if err != nil {
			return err
		}
		far, err := cuda.Alloc[float32](all[(c.Rank()+1)%2], 100)
		if err != nil {
			return err
		}
		gone, err := cuda.Alloc[float32](s.Device(), 100)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Free(), far.Free()) }()
		closed, err := s.Device().NewStream()
		if err := errors.Join(err, gone.Free(), closed.Close()); err != nil {
			return err
		}
		for _, wrong := range []struct {
			s          *cuda.Stream
			send, recv cuda.Slice[float32]
			op         collective.Op
			opt        Option
			want       string
		}{
			{nil, x, x, collective.Sum, Use(Trees), "no stream"},
			{closed, x, x, collective.Sum, Use(Trees), "was closed"},
			{s, x, x.Slice(0, 50), collective.Sum, Use(Trees), "send has 100 elements, recv 50"},
			{s, x.Slice(0, 50), x.Slice(10, 60), collective.Sum, Use(Trees), "overlap in part"},
			{s, x, far, collective.Sum, Use(Trees), "recv is memory of"},
			{s, gone, x, collective.Sum, Use(Trees), "send:"},
			{s, x, x, collective.Prod, Use(Trees), "operation prod"},
			{s, x, x, collective.Sum, BlockSize(0), "blocks of 0 elements"},
		} {
			if _, err := AllReduceDevice(ctx, c, wrong.s, wrong.send, wrong.recv, wrong.op, wrong.opt); !errors.Is(err,
				collective.ErrArgument) || !strings.Contains(err.Error(), wrong.want) {
				return fmt.Errorf("%v, want an ErrArgument with %q", err, wrong.want)
			}
		}
		if _, err := AllReduceDevice(ctx, c, s, x, x, collective.Sum, Use(Trees)); err != nil {
			return err
		}
		if c.Rank() == 1 {
			_, err = AllReduceDevice(ctx, c, s, x, x, collective.Sum, Use(Trees))
		} else {
			y := make([]float32, 100)
			_, err = AllReduce(ctx, c, y, y, collective.Sum, Use(Trees))
		}
		if !errors.Is(err, collective.ErrMismatch) ||
			!strings.Contains(err.Error(), "sparse AllReduceDevice (sum of 100 float32") {
			return fmt.Errorf("%v, want an ErrMismatch", err)
		}
		return nil
	})
}

// withoutMemory makes a call while the device has no free memory.
func withoutMemory(s *cuda.Stream, call func() error) error {
	var held []cuda.Slice[uint8]
	for n := 256 << 20; n >= 256; n /= 2 {
		for {
			more, err := cuda.Alloc[uint8](s.Device(), n)
			if err != nil {
				break
			}
			held = append(held, more)
		}
	}
	err := call()
	for _, m := range held {
		err = errors.Join(err, m.Free())
	}
	return err
}

// A rank that gives up or has no memory on its device ends the call on all ranks, and the error names it. (For a rank
// that is killed, see TestDeviceRankKilled.)
func TestDeviceCallStopped(t *testing.T) {
	for name, stop := range map[string]struct {
		kind error
		call func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[float32]) error
	}{
		"canceled": {collective.ErrCanceled, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[float32]) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := AllReduceDevice(ctx, c, s, x, x, collective.Sum, Use(Trees))
			return err
		}},
		"no memory": {collective.ErrDevice, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[float32]) error {
			err := withoutMemory(s, func() error {
				_, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Trees))
				return err
			})
			var of *cuda.Error
			if !errors.As(err, &of) {
				t.Errorf("%v does not wrap the error of the driver", err)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ran, err := onDevices(t, oneHost(3), func(c *collective.Comm, s *cuda.Stream) (err error) {
				x, err := cuda.Alloc[float32](s.Device(), 100000)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, x.Free()) }()
				if err := collective.Barrier(t.Context(), c); err != nil {
					return err
				}
				if c.Rank() == 1 {
					return stop.call(c, s, x)
				}
				_, err = AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Trees))
				return err
			})
			var re *collective.RankError
			if ran && (!errors.As(err, &re) || !errors.Is(err, stop.kind) || re.Rank != 1) {
				t.Errorf("%v, want %v of rank 1", err, stop.kind)
			}
		})
	}
}
