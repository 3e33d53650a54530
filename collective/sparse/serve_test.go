package sparse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/internal/kernel"
	"github.com/treerun/treerun/internal/testutil"
)

// serveLayouts are the hosts of the ranks, and the ranks that serve.
var serveLayouts = []struct{ hosts, servers []int }{
	{oneHost(2), []int{0}},
	{oneHost(5), []int{4}},
	{oneHost(6), []int{1, 4}},
	{[]int{0, 0, 1, 1, 0, 1}, []int{4, 5}},
	{[]int{0, 1, 2, 2}, []int{3, 2, 0}},
}

// served runs body as the workers of a job, which have a communicator of their own for
// the dense result, and Serve as the other ranks.
func served(t *testing.T, hosts, servers []int, body func(w *world, c, workers *collective.Comm) error) []error {
	t.Helper()
	return runRanks(t, hosts, func(w *world, c *collective.Comm) error {
		color := 0
		if slices.Contains(servers, c.Rank()) {
			color = 1
		}
		workers, err := c.Split(t.Context(), color, 0)
		if err != nil {
			return err
		}
		defer workers.Close()
		if color == 1 {
			return Serve(t.Context(), c)
		}
		return body(w, c, workers)
	})
}

func mustServe(t *testing.T, hosts, servers []int, body func(w *world, c, workers *collective.Comm) error) {
	t.Helper()
	for r, err := range served(t, hosts, servers, body) {
		if err != nil {
			t.Fatalf("rank %d of %v, of which %v serve: %v", r, hosts, servers, err)
		}
	}
}

// serveTrial makes a call and compares every element with the sum of the workers' tensors in their order, and for
// integers with the dense AllReduce.
func serveTrial[T Number](t *testing.T, c, workers *collective.Comm, p pattern, op collective.Op, count, size int,
	one func(*rand.Rand) T, opts ...Option) (Stats, error) {
	of := func(q int) []T { return input(p, q, workers.Size(), count, size, uint64(count), one) }
	send := of(workers.Rank())
	got, dense := make([]T, count), make([]T, count)
	for i := range got {
		got[i] = one(rand.New(rand.NewPCG(3, 4))) // old contents
	}
	stats, err := AllReduce(t.Context(), c, send, got, op, append(opts, BlockSize(size))...)
	if err != nil {
		return stats, err
	}
	if err := collective.AllReduce(t.Context(), workers, send, dense, op); err != nil {
		return stats, err
	}
	order := make([]int, workers.Size())
	for q := range order {
		order[q] = q
	}
	want := reduceInOrder(op, order, of)
	var zero T
	switch any(zero).(type) {
	case int32, int64:
		if !bytes.Equal(kernel.BytesOf(dense), kernel.BytesOf(want)) {
			return stats, fmt.Errorf("the dense AllReduce and the oracle differ")
		}
	}
	for i := range got {
		if !bytes.Equal(kernel.BytesOf(got[i:i+1]), kernel.BytesOf(want[i:i+1])) {
			return stats, fmt.Errorf("%s, %v of %d %v in blocks of %d: element %d is %v, want %v", p.name, op, count,
				dtypeOf[T](), size, i, got[i], want[i])
		}
	}
	return stats, nil
}

// Ranks that serve return the sum of the workers' blocks in their order, whatever the layout, the pattern, the length
// and the type, one call after the other, also when blocks exceed the slots of the links.
func TestServe(t *testing.T) {
	testutil.Long(t, "ranks that serve do not reduce in another way")
	for i, l := range serveLayouts {
		if !testutil.Thorough() && i%2 == 0 {
			continue
		}
		t.Run(fmt.Sprint(l.hosts, l.servers), func(t *testing.T) {
			mustServe(t, l.hosts, l.servers, func(_ *world, c, workers *collective.Comm) error {
				for i, p := range patterns {
					if i%2 > 0 && !testutil.Thorough() {
						continue
					}
					op, size := operations[i%3], []int{16, 64, 300, 9000}[i/2%4]
					for _, count := range []int{0, 1, 257, 5000, 40001} {
						if count > 6000 && (testutil.Race || i%4 > 0 && !testutil.Thorough()) {
							continue
						}
						s, err := serveTrial(t, c, workers, p, op, count, size, int32s)
						if err == nil && count > 0 && (s.Form != Aggregators || s.Servers != len(l.servers) ||
							s.WorkerBlocks != int64(s.NonZero)) {
							err = fmt.Errorf("%+v", s)
						}
						if err == nil {
							_, err = serveTrial(t, c, workers, p, op, count, size, float64s, Use(Aggregators))
						}
						if err != nil {
							return err
						}
					}
				}
				for _, rows := range []int{0, 1, 400} {
					for _, width := range []int{1, 3, 300} {
						if err := servePairs(t, c, workers, width, rows); err != nil {
							return err
						}
					}
				}
				return StopServing(t.Context(), c)
			})
		})
	}
}

// servePairs compares AllReducePairs with and without ranks that serve.
func servePairs(t *testing.T, c, workers *collective.Comm, width, rows int) error {
	in := pairsOf(workers.Rank(), width, rows, 1)
	want, _, err := AllReducePairs(t.Context(), workers, in, Use(Dense))
	if err != nil {
		return err
	}
	got, s, err := AllReducePairs(t.Context(), c, in)
	if err == nil && (!slices.Equal(got.Indices, want.Indices) || !slices.Equal(got.Values, want.Values) || rows > 1 &&
		s.Servers == 0) {
		err = fmt.Errorf("%d rows of %d: not the result of the dense form, or no rank served (%v)", rows, width, s)
	}
	return err
}

// After StopServing all ranks may make any call; then other ranks may serve.
func TestServeInTurns(t *testing.T) {
	hosts := []int{0, 0, 1, 1}
	mustRun(t, hosts, func(_ *world, c *collective.Comm) error {
		for turn, servers := range [][]int{{3}, {0, 2}, {3}} {
			serves := slices.Contains(servers, c.Rank())
			color := 0
			if serves {
				color = 1
			}
			workers, err := c.Split(t.Context(), color, 0)
			if err != nil {
				return err
			}
			if serves {
				err = Serve(t.Context(), c)
			} else if _, err = serveTrial(t, c, workers, patterns[8], collective.Sum, 5000+turn, 64, int32s); err == nil {
				err = StopServing(t.Context(), c)
			}
			if err == nil {
				err = workers.Close()
			}
			if err == nil {
				err = typed(t, turn, c, patterns[8], Trees, collective.Sum, 4000, 64, true)
			}
			if err == nil {
				err = typed(t, turn, c, patterns[8], Aggregators, collective.Sum, 4000, 64, true)
			}
			if err == nil {
				err = collective.Barrier(t.Context(), c)
			}
			if err != nil {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
		}
		return nil
	})
}

// A call that servers do not support is an ErrArgument on all workers, and the next call runs.
func TestServeRefuses(t *testing.T) {
	mustServe(t, oneHost(4), []int{2}, func(_ *world, c, workers *collective.Comm) error {
		x := make([]float32, 1000)
		for _, form := range []Form{Trees, Dense, Shared} {
			if _, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(form)); !errors.Is(err, collective.ErrArgument) ||
				!strings.Contains(err.Error(), "ranks that serve (2)") {
				return fmt.Errorf("%v: %v", form, err)
			}
		}
		in := Pairs[float32]{Width: 1, Indices: []uint32{7}, Values: []float32{1}}
		if _, _, err := AllReducePairs(t.Context(), c, in, Use(Trees)); !errors.Is(err, collective.ErrArgument) {
			return fmt.Errorf("rows: %v", err)
		}
		if _, err := serveTrial(t, c, workers, patterns[8], collective.Sum, 5000, 64, int32s); err != nil {
			return err
		}
		return StopServing(t.Context(), c)
	})
	mustRun(t, oneHost(2), func(_ *world, c *collective.Comm) error {
		if err := StopServing(t.Context(), c); !errors.Is(err, collective.ErrArgument) {
			return fmt.Errorf("StopServing without Serve: %v", err)
		}
		return collective.Barrier(t.Context(), c)
	})
}

// Calls that do not match end the communicator on workers and servers.
func TestServeMismatch(t *testing.T) {
	x := make([]float32, 1000)
	for name, c := range map[string]struct {
		servers []int
		call    func(c *collective.Comm) error // of a worker
		kind    error
		text    string
	}{
		"all serve": {[]int{0, 1, 2, 3}, nil, collective.ErrMismatch, "all ranks called sparse Serve"},
		"lengths": {[]int{3}, func(c *collective.Comm) error {
			_, err := AllReduce(t.Context(), c, x[:len(x)-c.Rank()/2], x[:len(x)-c.Rank()/2], collective.Sum)
			return err
		}, collective.ErrMismatch, "rank 2 called sparse AllReduce (sum of 999 float32"},
		"stop": {[]int{3}, func(c *collective.Comm) error {
			if c.Rank() == 1 {
				return StopServing(t.Context(), c)
			}
			_, err := AllReduce(t.Context(), c, x, x, collective.Sum)
			return err
		}, collective.ErrMismatch, "rank 1 called sparse StopServing"},
		"dense": {[]int{3}, func(c *collective.Comm) error {
			return collective.AllReduce(t.Context(), c, x, make([]float32, len(x)), collective.Sum)
		}, collective.ErrMismatch, "sparse"},
		"closed": {[]int{3}, func(c *collective.Comm) error { return errors.Join(c.Close(), errLeft) },
			collective.ErrPeerClosed, "closed"},
		"canceled": {[]int{3}, func(c *collective.Comm) error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if c.Rank() != 0 {
				ctx = t.Context()
			} else {
				<-ctx.Done()
			}
			_, err := AllReduce(ctx, c, x, x, collective.Sum)
			return err
		}, collective.ErrCanceled, "rank 0"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := served(t, oneHost(4), c.servers, func(_ *world, comm, _ *collective.Comm) error { return c.call(comm) })
			for r, err := range errs {
				var re *collective.RankError
				if errors.Is(err, errLeft) {
					continue
				}
				if !errors.As(err, &re) || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("rank %d: %v, want %v with %q", r, err, c.kind, c.text)
				}
			}
		})
	}
}

// errLeft is the error of a rank that has left on purpose.
var errLeft = errors.New("left")

// A worker or a server that ends in the middle of calls is a RankError on all others that names it, and every call that
// returned nil before had the correct result.
func TestServeStopped(t *testing.T) {
	testutil.Long(t, "where calls end does not depend on the build")
	for _, l := range serveLayouts[1:4] {
		for _, victim := range []int{0, l.servers[0]} {
			for name, kind := range map[string]error{"lost": collective.ErrRankLost, "aborted": collective.ErrAborted} {
				if name == "aborted" && victim != 0 {
					continue // a server has no part of the program that could
				}
				t.Run(fmt.Sprint(l.hosts, l.servers, victim, name), func(t *testing.T) {
					errs := served(t, l.hosts, l.servers, func(w *world, c, workers *collective.Comm) error {
						first := slices.Repeat([]int32{1}, 1<<16) // servers take part in it: all are done with New
						if _, err := AllReduce(t.Context(), c, first, first, collective.Sum); err != nil {
							return err
						}
						if c.Rank() == 0 {
							time.AfterFunc(time.Duration(20+rand.IntN(40))*time.Millisecond, func() {
								if name == "lost" {
									w.Fail(victim, errors.New("killed by SIGKILL"))
								} else {
									c.Abort(errors.New("enough"))
								}
							})
						}
						return reduceCompared(t, c, workers)
					})
					for r, err := range errs {
						var re *collective.RankError
						if !errors.As(err, &re) || !errors.Is(err, kind) || re.Rank != victim {
							t.Errorf("rank %d: %v, want %v of rank %d", r, err, kind, victim)
						}
					}
				})
			}
		}
	}
}

// reduceCompared makes calls until one fails, and compares the result of each.
func reduceCompared(t *testing.T, c, workers *collective.Comm) error {
	const count, size = 1 << 16, 64
	for call := 1; ; call++ {
		x := make([]int32, count)
		for i := range x {
			if i/size%(workers.Size()+1) != workers.Rank() {
				x[i] = int32(call + i)
			}
		}
		if _, err := AllReduce(t.Context(), c, x, x, collective.Sum, BlockSize(size)); err != nil {
			return err
		}
		for i, v := range x {
			have := workers.Size()
			if i/size%(workers.Size()+1) < workers.Size() {
				have--
			}
			if want := int32(have * (call + i)); v != want {
				return fmt.Errorf("call %d: element %d is %d, want %d", call, i, v, want)
			}
		}
	}
}

// A server without a call for longer than the stall timeout is not ended by it.
func TestServeIdle(t *testing.T) {
	hosts := oneHost(2)
	testutil.WithLonger(t, 100*time.Millisecond, func(stall time.Duration) error {
		return errors.Join(testutil.NewJob(hosts...).Run(t, func(w *testutil.World) error {
			c, err := collective.New(t.Context(), w, collective.WithTopoCache(""),
				collective.WithGraph(testutil.GraphOn(hosts)), collective.WithStallTimeout(stall))
			if err != nil {
				return err
			}
			defer c.Close()
			if c.Rank() == 1 {
				return Serve(t.Context(), c)
			}
			time.Sleep(5 * stall)
			x := []float32{7}
			if _, err := AllReduce(t.Context(), c, x, x, collective.Sum); err != nil || x[0] != 7 {
				return fmt.Errorf("%v, %w", x, err)
			}
			return StopServing(t.Context(), c)
		})...)
	})
}

// A server has no tensor: with one worker no zeros of other ranks count, even if the operation would prefer them.
func TestServeOneWorker(t *testing.T) {
	for _, op := range []collective.Op{collective.Sum, collective.Max, collective.Min} {
		mustServe(t, oneHost(2), []int{0}, func(_ *world, c, _ *collective.Comm) error {
			for _, v := range []float64{-7, 7} {
				in, out := make([]float64, 257), make([]float64, 257)
				in[256] = v
				if _, err := AllReduce(t.Context(), c, in, out, op, BlockSize(64)); err != nil {
					return err
				}
				if out[256] != v {
					return fmt.Errorf("%v of %v alone is %v", op, v, out[256])
				}
			}
			return StopServing(t.Context(), c)
		})
	}
}
