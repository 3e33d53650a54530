//go:build linux

package collective

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
)

// eager has c measure the network at every look, and look before every large call.
func eager(c *Comm) {
	p := &c.in.Looks.Pace
	p.Off, p.Long, p.Rest, p.Share = 0, 0, 0, 1
	c.in.Looks.Every = 1
}

// replanned runs body as the ranks of a job on hosts whose network is measured, with plans that are made as often as
// possible.
func replanned(t *testing.T, hosts []int, body func(w *testutil.Hosted, c *Comm) error, opts ...Option) []error {
	settings := map[string]string{"start-timeout": "30s"}
	return runHosts(t, hosts, settings, func(w *testutil.Hosted, c *Comm) error {
		eager(c)
		return body(w, c)
	}, opts...)
}

// Whatever calls ranks make, their results are right while the network is measured between them and plans change.
func TestReplanBetweenCalls(t *testing.T) {
	for seed := range uint64(testutil.Count(2, 8)) {
		hosts := [][]int{{0, 1}, {0, 1, 2}, {0, 0, 1, 2}, {0, 1, 0, 1}}[seed%4]
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			errs := replanned(t, hosts, func(w *testutil.Hosted, c *Comm) error {
				rng := rand.New(rand.NewPCG(seed, 7)) // the same on all ranks
				changes := 0
				for range testutil.Count(20, 60) {
					eager(c)
					_, between := c.in.Setup.Latest()
					between.Network.Graph.Links[0].GBytesPerSecond = 0.01 // as if it had become quicker
					if err := anyCall(t, c, rng); err != nil {
						return err
					}
					if _, after := c.in.Setup.Latest(); after != between {
						changes++
					}
				}
				if changes < 3 {
					return fmt.Errorf("rank %d: plans have changed %d times", c.Rank(), changes)
				}
				return nil
			})
			if err := errors.Join(errs...); err != nil {
				t.Error(err)
			}
		})
	}
}

// anyCall makes one of several calls, or more, and checks the results.
func anyCall(t *testing.T, c *Comm, rng *rand.Rand) error {
	n, large := c.Size(), 1<<18+rng.IntN(1<<18)
	switch rng.IntN(7) {
	case 0: // one rank waits in the call, and the others start it
		x, y := make([]float32, large), make([]float32, large)
		x[large-1] = float32(c.Rank())
		if rng.IntN(n) == c.Rank() {
			if err := AllReduce(t.Context(), c, x, y, Sum); err != nil {
				return err
			}
		} else if r, err := StartAllReduce(c, x, y, Sum); err != nil {
			return err
		} else if err := r.Wait(t.Context()); err != nil {
			return err
		}
		if y[large-1] != float32(n*(n-1)/2) {
			return fmt.Errorf("sum %v", y[large-1])
		}
		return nil
	case 1:
		return checkOthers(t, c)
	case 2:
		d, err := c.Dup(t.Context())
		if err != nil {
			return err
		}
		return errors.Join(checkSum(t, d, large), d.Close())
	case 3:
		x := [][]float32{make([]float32, large), make([]float32, 7)}
		x[1][6] = 2
		if err := AllReduceCoalesced(t.Context(), c, x, x, Sum); err != nil || x[1][6] != float32(2*n) {
			return fmt.Errorf("%v of slices, %w", x[1][6], err)
		}
		return nil
	case 4:
		mine, all := make([]int64, large/n), make([]int64, large/n*n)
		mine[0] = int64(c.Rank())
		if err := AllGather(t.Context(), c, mine, all); err != nil || all[len(mine)*(n-1)] != int64(n-1) {
			return fmt.Errorf("gathered %v, %w", all[len(mine)*(n-1)], err)
		}
		return nil
	}
	for range 3 {
		if err := checkSum(t, c, large); err != nil {
			return err
		}
	}
	return nil
}

// dying is a World whose rank is lost when it is asked for its addresses for the given time.
type dying struct {
	*testutil.Hosted
	left *atomic.Int32
}

func (w dying) ListenAddrs() []netip.Addr {
	if w.left.Add(-1) == 0 {
		w.Fail(w.Rank(), errors.New("killed by SIGKILL"))
	}
	return w.Hosted.ListenAddrs()
}

// A rank that is lost while the network is measured ends the calls of all others with the usual error.
func TestLossWhileMeasuringAgain(t *testing.T) {
	begin := time.Now()
	errs := testutil.NewJob(0, 1, 2).Run(t, func(world *testutil.World) error {
		w := dying{&testutil.Hosted{World: world}, new(atomic.Int32)}
		c, err := New(t.Context(), w, WithTopoCache(""))
		if err != nil {
			return err
		}
		defer c.Close()
		eager(c)
		if w.Rank() == 1 {
			w.left.Store(1)
		}
		for {
			if err := checkSum(t, c, 1<<18); err != nil {
				return err
			}
		}
	})
	for r, err := range errs {
		var lost *RankError
		if !errors.As(err, &lost) || lost.Rank != 1 || !errors.Is(err, ErrRankLost) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %v", took)
	}
}

// An Abort while others measure the network, or are about to, ends it.
func TestAbortWhileMeasuringAgain(t *testing.T) {
	for r, err := range replanned(t, []int{0, 1, 2}, func(w *testutil.Hosted, c *Comm) error {
		if w.Rank() == 2 {
			time.AfterFunc(300*time.Millisecond, func() { c.Abort(errors.New("enough")) })
		}
		for {
			if err := checkSum(t, c, 1<<18); err != nil {
				return err
			}
		}
	}) {
		if lost := (*RankError)(nil); !errors.As(err, &lost) || lost.Rank != 2 || !errors.Is(err, ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Ranks that make different calls where others look get the usual error.
func TestMismatchAtALook(t *testing.T) {
	for r, err := range replanned(t, []int{0, 1, 2}, func(w *testutil.Hosted, c *Comm) error {
		if err := checkSum(t, c, 1<<18); err != nil {
			return err
		}
		if w.Rank() == 1 {
			return Barrier(t.Context(), c)
		}
		return checkSum(t, c, 1<<18)
	}) {
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Nothing is measured again for a graph of the caller's, for one host, and where a program does not want it; and all
// ranks must want the same.
func TestNothingToReplan(t *testing.T) {
	hosts := []int{0, 1}
	off := func(name string, hosts []int, settings map[string]string, opts ...Option) {
		errs := runHosts(t, hosts, settings, func(w *testutil.Hosted, c *Comm) error {
			if c.in.Looks.Every != 0 {
				return errors.New("ranks look at the times of calls")
			}
			return nil
		}, opts...)
		if err := errors.Join(errs...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	off("one host", []int{0, 0}, nil)
	off("a graph", hosts, nil, WithGraph(testutil.GraphOn(hosts)))
	off("no measurement", hosts, map[string]string{"probe": "off"})
	off("not wanted", hosts, nil, WithoutReplan())
	errs := testutil.NewJob(hosts...).Run(t, func(world *testutil.World) error {
		var opts []setup.Option
		if world.Rank() == 1 {
			opts = append(opts, WithoutReplan())
		}
		_, err := New(t.Context(), &testutil.Hosted{World: world}, opts...)
		return err
	})
	for r, err := range errs {
		if !errors.Is(err, ErrDisagree) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
