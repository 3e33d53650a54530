//go:build cgo && linux

package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// density defines the number of a rank's non-zero blocks.
type density struct {
	name string
	has  func(rank, ranks, block, blocks int) bool
}

var densities = []density{
	{"none", func(int, int, int, int) bool { return false }},
	{"one block", func(rank, _, block, _ int) bool { return rank == 1 && block == 0 }},
	{"the last block", func(rank, _, block, blocks int) bool { return block == blocks-1 }},
	{"1 %", func(rank, _, block, _ int) bool { return (block*31+rank*17)%100 == 0 }},
	{"one each", func(rank, _, block, _ int) bool { return block == rank }},
	{"half, apart", func(rank, _, block, _ int) bool { return (block+rank)%2 == 0 }},
	{"half, alike", func(_, _, block, _ int) bool { return block*7%10 < 5 }},
	{"all", func(int, int, int, int) bool { return true }},
}

// asDense makes a call in the form Compact and one of the dense plan on the same tensor of small whole numbers, whose
// sums are exact: the results have the same bits.
func asDense[T Number](t *testing.T, c *collective.Comm, s *cuda.Stream, d density, op collective.Op, count, size int,
	inPlace bool, of func(int) T) error {
	grid := block.Grid{Elements: count, Size: size, Width: dtypeOf[T]().Size()}
	all := make([][]T, c.Size())
	union := make([]bool, grid.Blocks())
	own := 0
	r := rand.New(rand.NewPCG(uint64(count), uint64(size)))
	for q := range all {
		all[q] = make([]T, count)
		for b := range union {
			if !d.has(q, c.Size(), b, len(union)) {
				continue
			}
			union[b] = true
			for i := b * size; i < min((b+1)*size, count); i++ {
				all[q][i] = of(1 + r.IntN(7))
			}
			if q == c.Rank() {
				own++
			}
		}
	}
	send, what := all[c.Rank()], fmt.Sprintf("%s, %v of %d %v in blocks of %d, in place %v", d.name, op, count,
		dtypeOf[T](), size, inPlace)
	_, want, _, err := callOnDevice(t.Context(), c, s, send, of(3), op, false, Use(Dense))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	kept, got, st, err := callOnDevice(t.Context(), c, s, send, of(3), op, inPlace, Use(Compact), BlockSize(size))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	n, words := 0, (len(union)+63)/64
	for _, any := range union {
		if any {
			n++
		}
	}
	most := int64(n*size*grid.Width + 8*words)
	switch {
	case !bytes.Equal(kernel.BytesOf(got), kernel.BytesOf(want)):
		return fmt.Errorf("%s: the result differs from the dense one", what)
	case !inPlace && !bytes.Equal(kernel.BytesOf(kept), kernel.BytesOf(send)):
		return fmt.Errorf("%s: send has changed", what)
	case count > 0 && (st.Form != Compact || st.NonZero != own || st.Union != n || st.SentBytes > most ||
		st.SentBytes < most-int64(size*grid.Width) || st.SentBlocks != int64(n)):
		return fmt.Errorf("%s: counted %+v, of %d blocks, %d in the union and %d bytes", what, st, own, n, most)
	}
	return nil
}

func asDenseOf(t *testing.T, i int, c *collective.Comm, s *cuda.Stream, d density, op collective.Op, count, size int,
	inPlace bool) error {
	switch i % 6 {
	case 0:
		return asDense(t, c, s, d, op, count, size, inPlace, func(v int) float32 { return float32(v) })
	case 1:
		return asDense(t, c, s, d, op, count, size, inPlace, func(v int) int32 { return int32(v) })
	case 2:
		return asDense(t, c, s, d, op, count, size, inPlace, func(v int) float64 { return float64(v) })
	case 3:
		return asDense(t, c, s, d, op, count, size, inPlace, func(v int) int64 { return int64(v) })
	case 4:
		return asDense(t, c, s, d, op, count, size, inPlace, func(v int) collective.Float16 {
			e := bits.Len(uint(v)) - 1
			return collective.Float16(15+e)<<10 | collective.Float16(v-1<<e)<<(10-e)
		})
	}
	return asDense(t, c, s, d, op, count, size, inPlace, func(v int) collective.BFloat16 {
		return collective.BFloat16(math.Float32bits(float32(v)) >> 16)
	})
}

// Compacted blocks give the result of the dense plan with the whole tensor: of all densities and types, with odd tails,
// in place and not, in calls of different sizes after each other, on one host and between hosts.
func TestCompact(t *testing.T) {
	layouts := [][]int{oneHost(2), oneHost(3), oneHost(5), {0, 0, 1, 1}}
	if !testutil.Thorough() {
		layouts = [][]int{oneHost(3), {0, 0, 1, 1}}
	}
	for _, hosts := range layouts {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			mustOnDevices(t, hosts, func(c *collective.Comm, s *cuda.Stream) error {
				i := 0
				for _, count := range []int{1, 257, 20001, 0, 5000} {
					for _, d := range densities {
						size := []int{256, 1, 300, 33, 64}[i%5]
						if count > 6000 {
							size = max(size, 16)
						}
						if err := asDenseOf(t, i, c, s, d, operations[i/6%3], count, size, i/2%2 == 0); err != nil {
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

// Calls of growing and shrinking unions follow each other on two streams without a wait in between, among those of
// other forms.
func TestCompactInARow(t *testing.T) {
	mustOnDevices(t, oneHost(4), func(c *collective.Comm, s *cuda.Stream) (err error) {
		two, err := s.Device().NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, two.Close()) }()
		const count, calls = 30_000, 16
		var all []cuda.Slice[int32]
		for k := range calls {
			host := make([]int32, count)
			for i := range host[:count*(k*5%calls)/calls] {
				host[i] = int32(i*(c.Rank()+1) + k)
			}
			x, err := cuda.Alloc[int32](s.Device(), count)
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
			form := []Form{Compact, Compact, Trees, Compact, Dense}[k%5]
			if _, err := AllReduceDevice(t.Context(), c, []*cuda.Stream{s, two}[k%2], x, x, collective.Sum, BlockSize(64),
				Use(form)); err != nil {
				return err
			}
		}
		if err := errors.Join(c.SyncDevice(t.Context(), two), c.SyncDevice(t.Context(), s)); err != nil {
			return err
		}
		for k, x := range all {
			host := make([]int32, count)
			if err := x.CopyTo(t.Context(), s, host); err != nil {
				return err
			}
			for i, v := range host {
				want := int32(0)
				if i < count*(k*5%calls)/calls {
					want = int32(10*i + 4*k)
				}
				if v != want {
					return fmt.Errorf("call %d, element %d: %d, want %d", k, i, v, want)
				}
			}
		}
		return nil
	})
}

// A rank that makes another call, has no memory or a context that has ended ends the call on all ranks.
func TestCompactRefused(t *testing.T) {
	for name, refused := range map[string]struct {
		kind error
		call func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error
	}{
		"count": {collective.ErrMismatch, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error {
			x = x.Slice(0, x.Len()-1)
			_, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Compact))
			return err
		}},
		"operation": {collective.ErrMismatch, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error {
			_, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Max, Use(Compact))
			return err
		}},
		"form": {collective.ErrMismatch, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error {
			_, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Trees))
			return err
		}},
		"no memory": {collective.ErrDevice, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error {
			return withoutMemory(s, func() error {
				_, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Compact))
				return err
			})
		}},
		"context": {collective.ErrCanceled, func(c *collective.Comm, s *cuda.Stream, x cuda.Slice[int32]) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := AllReduceDevice(ctx, c, s, x, x, collective.Sum, Use(Compact))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := onDevices(t, oneHost(3), func(c *collective.Comm, s *cuda.Stream) (err error) {
				x, err := cuda.Alloc[int32](s.Device(), 5000)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, x.Free()) }()
				if err := s.Memset(x.Addr(), 1, x.Bytes()); err != nil {
					return err
				}
				y := make([]int32, 10)
				if _, err := AllReduce(t.Context(), c, y, y, collective.Sum, Use(Compact)); !errors.Is(err,
					collective.ErrArgument) || !strings.Contains(err.Error(), "the form compact") {
					return fmt.Errorf("of host memory: %v, want an ErrArgument", err)
				}
				short := x.Slice(0, 300)
				if _, err := AllReduceDevice(t.Context(), c, s, short, short, collective.Sum, Use(Compact)); err != nil {
					return err
				}
				if c.Rank() == 1 {
					err = refused.call(c, s, x)
				} else {
					_, err = AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(Compact))
				}
				if err == nil { // the others may have enqueued it
					err = c.SyncDevice(t.Context(), s)
				}
				if !errors.Is(err, refused.kind) {
					return fmt.Errorf("%v, want %v", err, refused.kind)
				}
				return s.Synchronize(t.Context())
			})
			if err != nil && !errors.Is(err, refused.kind) {
				t.Error(err)
			}
		})
	}
}

// driverCalls are the calls of the driver that put work into a stream.
var driverCalls = []string{"cuLaunchKernel", "cuMemcpyAsync", "cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent",
	"cuStreamBatchMemOp"}

// The driver calls that a call enqueues with blocks that go through the host, and with blocks that go from device to
// device, for which no pinned memory is allocated.
func TestDriverCallsOfSparse(t *testing.T) {
	mustOnDevices(t, oneHost(4), func(c *collective.Comm, s *cuda.Stream) (err error) {
		const count = 1 << 18
		x, err := cuda.Alloc[float32](s.Device(), count)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Free()) }()
		if err := errors.Join(s.Memset(x.Addr(), 0, x.Bytes()), s.Memset(x.Addr(), 1, x.Bytes()/100)); err != nil {
			return err
		}
		for _, form := range []struct {
			Form
			most int
		}{{Compact, 30}, {Shared, 10}, {Trees, 10}} {
			all := 0
			for range 2 { // the first one opens links and memory
				before := fakegpu.Calls(t)
				if _, err := AllReduceDevice(t.Context(), c, s, x, x, collective.Sum, Use(form.Form)); err != nil {
					return err
				}
				all = 0
				after := fakegpu.Calls(t)
				for _, name := range driverCalls {
					all += after[name] - before[name]
				}
			}
			t.Logf("%v: %d calls of the driver", form.Form, all)
			if all > form.most {
				return fmt.Errorf("%v: %d calls of the driver, want at most %d", form.Form, all, form.most)
			}
			if g := stateOf(comm.Of(c)).stage; form.Form == Compact && g.host != nil {
				return errors.New("there is pinned memory for blocks")
			}
		}
		return nil
	})
}

// A rank that is killed among calls that go from device to device ends the others' calls and streams.
func TestCompactRankKilled(t *testing.T) {
	_, err := asJob(t, fakegpu.Job{Hosts: []string{"dgx1v/0-3"}, Kills: true}, oneHost(4),
		func(c *collective.Comm, s *cuda.Stream) (err error) { return untilKilled(t, c, s, Compact) })
	if err != nil {
		t.Error(err)
	}
}
