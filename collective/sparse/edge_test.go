package sparse

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/sparse/internal/merge"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// Numbers that are almost zero are never lost, and zeros of either sign in blocks of zeros become +0, the same on all
// ranks.
func TestSpecialNumbers(t *testing.T) {
	nan, inf, negative := float32(math.NaN()), float32(math.Inf(-1)), float32(math.Copysign(0, -1))
	tiny := math.Float32frombits(1)
	for _, form := range []Form{Trees, Aggregators, Shared, ByPrice, Dense} {
		for _, inPlace := range []bool{false, true} {
			mustRun(t, oneHost(3), func(_ *world, c *collective.Comm) error {
				const size, blocks = 4, 40
				send := make([]float32, size*blocks)
				if c.Rank() == 1 {
					send[5*size], send[6*size+1], send[7*size+2], send[9*size+3] = nan, inf, tiny, -tiny
				}
				for i := 20 * size; i < 30*size; i++ {
					send[i] = negative
				}
				send[25*size] = 1
				recv := send
				if !inPlace {
					recv = slices.Repeat([]float32{7}, len(send))
				}
				if _, err := AllReduce(t.Context(), c, send, recv, collective.Sum, BlockSize(size), Use(form)); err != nil {
					return err
				}
				want := make([]float32, len(send))
				want[5*size], want[6*size+1], want[7*size+2], want[9*size+3] = math.Float32frombits(0x7FC00000), inf, tiny, -tiny
				want[25*size] = 3
				for i := range want {
					negativeZero := form == Dense && i >= 20*size && i < 30*size || form != Dense && i/size == 25 // its block is sent
					if form == ByPrice {
						negativeZero = math.Signbit(float64(recv[i])) && i >= 20*size && i < 30*size
					}
					if negativeZero && want[i] == 0 {
						want[i] = negative
					}
				}
				if !bytes.Equal(kernel.BytesOf(recv), kernel.BytesOf(want)) {
					for i := range want {
						if math.Float32bits(recv[i]) != math.Float32bits(want[i]) {
							return fmt.Errorf("%v, in place %v: element %d is %x, want %x", form, inPlace, i, math.Float32bits(recv[i]),
								math.Float32bits(want[i]))
						}
					}
				}
				return nil
			})
		}
	}
}

// A block that a rank leaves out is zero in Min and Max, too.
func TestLeftOutIsZero(t *testing.T) {
	for _, form := range []Form{Trees, Aggregators, Shared, Dense} {
		mustRun(t, oneHost(3), func(_ *world, c *collective.Comm) error {
			x := make([]int32, 1000)
			if c.Rank() > 0 {
				x[500], x[700] = -5, 6
			}
			least, most := make([]int32, len(x)), make([]int32, len(x))
			_, first := AllReduce(t.Context(), c, x, least, collective.Min, BlockSize(10), Use(form))
			_, second := AllReduce(t.Context(), c, x, most, collective.Max, BlockSize(10), Use(form))
			if least[500] != -5 || least[700] != 0 || most[500] != 0 || most[700] != 6 {
				return fmt.Errorf("%v: least %d and %d, most %d and %d (%v, %v)", form, least[500], least[700], most[500],
					most[700], first, second)
			}
			return errors.Join(first, second)
		})
	}
}

// Ranks whose blocks may be more than they can lend have no form Shared.
func TestTooLargeToShare(t *testing.T) {
	c := newCall(allReduce, kernel.Float32, collective.Sum, transport.MaxLent/4, nil)
	r := newReduction(c)
	r.state = &state{c: &comm.Comm{}, inside: &comm.Inside{HeapBytes: transport.MaxHeapBytes}}
	if why := r.noSharing(); !strings.Contains(why, "at most 2147483647 can be lent") {
		t.Errorf("%q", why)
	}
	r.grid.Elements /= 2
	if why := r.noSharing(); why != "" {
		t.Errorf("half of the largest tensor: %q", why)
	}
}

// A wrong argument is an error before anything is sent.
func TestArguments(t *testing.T) {
	mustRun(t, oneHost(2), func(_ *world, c *collective.Comm) error {
		x := make([]float32, 100)
		ctx := t.Context()
		for _, wrong := range []struct {
			err  func() (Stats, error)
			want string
		}{
			{func() (Stats, error) { return AllReduce(ctx, nil, x, x, collective.Sum) }, "the Comm is nil"},
			{func() (Stats, error) { return Stats{}, Serve(ctx, nil) }, "the Comm is nil"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x[:50], collective.Sum) }, "send has 100 elements, recv 50"},
			{func() (Stats, error) { return AllReduce(ctx, c, x[:50], x[10:60], collective.Sum) }, "overlap in part"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x, collective.Prod) }, "operation prod"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x, collective.Sum, BlockSize(0)) }, "blocks of 0 elements"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x, collective.Sum, BlockSize(1<<20)) }, "blocks of 1048576"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x, collective.Sum, BlockSize(1<<62)) },
				"blocks of 4611686018427387904 elements; want 1 to 262144"},
			{func() (Stats, error) { return AllReduce(ctx, c, x, x, collective.Sum, Use(77)) }, "no such form"},
			{func() (Stats, error) {
				_, s, err := AllReducePairs(ctx, c, Pairs[float32]{Indices: []uint32{1}, Values: x, Width: 3})
				return s, err
			}, "100 values for 1 rows of 3"},
			{func() (Stats, error) { // 4 << 62 is 0
				_, s, err := AllReducePairs(ctx, c, Pairs[float32]{Indices: []uint32{1, 2, 3, 4}, Width: 1 << 62})
				return s, err
			}, "rows of 4611686018427387904 elements; want 1 to 262144"},
		} {
			if _, err := wrong.err(); !errors.Is(err, collective.ErrArgument) || !strings.Contains(err.Error(), wrong.want) {
				return fmt.Errorf("%v, want an ErrArgument with %q", err, wrong.want)
			}
		}
		_, err := AllReduce(ctx, c, x, x, collective.Sum)
		return err
	})
}

// If ranks make different calls, the errors of all ranks name the ranks and the calls.
func TestMismatch(t *testing.T) {
	x, y := make([]float32, 1000), make([]int32, 1000)
	long := make([]float32, 1001)
	for name, odd := range map[string]struct {
		call func(c *collective.Comm) error
		want string
	}{
		"length": {func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, long, long, collective.Sum)
			return err
		}, "rank 1 called sparse AllReduce (sum of 1001 float32"},
		"type": {func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, y, y, collective.Sum)
			return err
		}, "1000 int32"},
		"operation": {func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, x, x, collective.Max)
			return err
		}, "max of"},
		"block size": {func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, x, x, collective.Sum, BlockSize(128))
			return err
		}, "in blocks of 128"},
		"form": {func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Trees))
			return err
		}, ", trees)"},
		"pairs": {func(c *collective.Comm) error {
			_, _, err := AllReducePairs(t.Context(), c, Pairs[float32]{Width: 4})
			return err
		}, "AllReducePairs (rows of 4 float32"},
		"dense": {func(c *collective.Comm) error { return collective.AllReduce(t.Context(), c, x, x, collective.Sum) },
			"rank 1 called AllReduce #"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := runRanks(t, oneHost(3), func(_ *world, c *collective.Comm) error {
				if _, err := AllReduce(t.Context(), c, make([]float32, 1000), make([]float32, 1000), collective.Sum); err != nil {
					return err
				}
				if c.Rank() == 1 {
					return odd.call(c)
				}
				_, err := AllReduce(t.Context(), c, make([]float32, 1000), make([]float32, 1000), collective.Sum)
				return err
			})
			for r, err := range errs {
				var re *collective.RankError
				if !errors.As(err, &re) || !errors.Is(err, collective.ErrMismatch) || re.Rank != 1 && name != "dense" ||
					!strings.Contains(err.Error(), odd.want) {
					t.Errorf("rank %d: %v, want an ErrMismatch of rank 1 with %q", r, err, odd.want)
				}
			}
		})
	}
}

// A rank that ends, aborts or gives up while the others are in the exchange ends it
// for all, with the same cause.
func TestStopped(t *testing.T) {
	testutil.Long(t, "where calls end does not depend on the build")
	for _, hosts := range [][]int{oneHost(4), {0, 0, 1, 1}} {
		for _, form := range formsOn(hosts, Trees, Aggregators) {
			for name, stop := range map[string]struct {
				do   func(w *world, c *collective.Comm)
				kind error
			}{
				"lost": {func(w *world, _ *collective.Comm) { w.Fail(2, errors.New("killed by SIGKILL")) },
					collective.ErrRankLost},
				"aborted": {func(_ *world, c *collective.Comm) { c.Abort(errors.New("enough")) }, collective.ErrAborted},
				"closed":  {func(_ *world, c *collective.Comm) { c.Close() }, collective.ErrPeerClosed},
			} {
				t.Run(fmt.Sprint(hosts, form, name), func(t *testing.T) {
					errs := runRanks(t, hosts, func(w *world, c *collective.Comm) error {
						err := reduceUntil(t, c, 1<<18, time.Duration(20+10*int(form))*time.Millisecond, func() { stop.do(w, c) },
							Use(form))
						if _, again := AllReduce(t.Context(), c, make([]float32, 1), make([]float32, 1), collective.Max); again == nil {
							t.Errorf("rank %d: a call after the failure succeeded", c.Rank())
						}
						return err
					})
					wantStop(t, errs, stop.kind, 2, "")
				})
			}
		}
	}
}

// A worker sends only its blocks and their headers to aggregators.
func TestWorkerBytes(t *testing.T) {
	const size, blocks = 256, 4000
	mustRun(t, oneHost(4), func(_ *world, c *collective.Comm) error {
		x := make([]float32, size*blocks)
		mine := 0
		for b := range blocks {
			if (b*7+c.Rank()*3)%20 == 0 {
				x[b*size+b%size] = 1
				mine++
			}
		}
		s, err := AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum, Use(Aggregators))
		if err != nil {
			return err
		}
		most := int64(mine)*(size*4+merge.RunBytes) + s.SentMessages*merge.HeaderBytes
		if s.NonZero != mine || s.WorkerBytes > most || s.WorkerBlocks > int64(mine) {
			return fmt.Errorf("%d blocks: sent %d blocks in %d bytes, at most %d are allowed: %+v", mine, s.WorkerBlocks,
				s.WorkerBytes, most, s)
		}
		return nil
	})
}

// By price a full tensor is reduced in the dense form, and an empty one is not.
func TestChoice(t *testing.T) {
	for _, hosts := range [][]int{oneHost(2), {0, 1}} {
		mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
			x := make([]float32, 1<<20)
			empty, err := AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum)
			if err != nil {
				return err
			}
			for i := range x {
				x[i] = 1
			}
			full, err := AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum)
			if empty.Form == Dense || full.Form != Dense || full.Density != 1 || empty.UnionDensity != 0 {
				return fmt.Errorf("hosts %v: empty ran as %v, full as %v", hosts, empty, full)
			}
			if full.Predicted[Dense] <= 0 || full.Predicted[Trees] <= full.Predicted[Dense] {
				return fmt.Errorf("predicted %v", full.Predicted)
			}
			return err
		})
	}
}

func FuzzParseHello(f *testing.F) {
	h := hello{Call: call{What: allReduce, DType: 9, Op: 1, Block: 256, Count: 1000}}
	f.Add(h.encode())
	for _, c := range []call{{Block: -1}, {Block: 1, Count: -1}, {Block: 1 << 40},
		{Block: 1, Count: math.MaxInt64}} {
		c.What, c.DType, c.Op = allReduce, 9, 1
		odd := hello{Call: c}
		f.Add(odd.encode())
	}
	f.Add([]byte{helloVersion})
	f.Add(make([]byte, helloBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			if !errors.Is(err, errHello) {
				t.Fatal(err)
			}
			return
		}
		again, err := parseHello(h.encode())
		if err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
		if h.Call.String() == "" {
			t.Fatal("a call without words")
		}
	})
}
