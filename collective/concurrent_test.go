package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// TestConcurrentCommunicators: goroutines of every rank use a communicator each, of all ranks, of the ranks of a host,
// or for messages. Now and then a rank is late, so that the others sleep. All results are correct.
func TestConcurrentCommunicators(t *testing.T) {
	for _, hosts := range [][]int{{0, 0}, {0, 0, 0}, {0, 1}, {0, 0, 1, 1}} {
		for _, cores := range []int{1, 2, 64} {
			t.Run(fmt.Sprint(hosts, cores), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(cores, 8)))
				few := map[string]string{"cores": fmt.Sprint(cores), "start-timeout": "30s"}
				errs := runHosts(t, hosts, few, func(_ *testutil.Hosted, c *Comm) error {
					return useSideBySide(t.Context(), c, hosts)
				}, WithGraph(testutil.GraphOn(hosts)))
				if err := errors.Join(errs...); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func useSideBySide(ctx context.Context, c *Comm, hosts []int) error {
	const goroutines = 6
	calls := testutil.Count(60, 300)
	errs := make([]error, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		color := 0
		if g%3 == 1 {
			color = hosts[c.Rank()]
		}
		part, err := c.Split(ctx, color, 0)
		if err != nil {
			return err
		}
		group.Go(func() {
			defer func() { errs[g] = errors.Join(errs[g], part.Close()) }()
			same, own := rand.New(rand.NewPCG(uint64(g), 0)), rand.New(rand.NewPCG(uint64(g), uint64(c.Rank())))
			for i := range calls {
				if own.IntN(20) == 0 {
					time.Sleep(time.Duration(own.IntN(40)) * time.Millisecond)
				}
				if err := callOn(ctx, part, g%3 == 2, 1+same.IntN(20_000), i); err != nil {
					errs[g] = fmt.Errorf("goroutine %d, call %d: %w", g, i, err)
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// callOn makes an AllReduce of n elements, or sends them around a ring, and checks the result.
func callOn(ctx context.Context, c *Comm, message bool, n, i int) error {
	send, recv := make([]int32, n), make([]int32, n)
	of := func(rank, j int) int32 { return int32(rank*1000 + 7*i + j) }
	for j := range send {
		send[j] = of(c.Rank(), j)
	}
	want := func(j int) (sum int32) {
		for r := range c.Size() {
			sum += of(r, j)
		}
		return sum
	}
	var err error
	if message {
		from := (c.Rank() + c.Size() - 1) % c.Size()
		want = func(j int) int32 { return of(from, j) }
		_, err = SendRecv(ctx, c, send, (c.Rank()+1)%c.Size(), recv, from, 0)
	} else {
		err = AllReduce(ctx, c, send, recv, Sum)
	}
	for j := range recv {
		if err == nil && recv[j] != want(j) {
			err = fmt.Errorf("element %d of %d is %d, want %d", j, n, recv[j], want(j))
		}
	}
	return err
}

// TestConcurrentFailures: goroutines of a rank wait on several communicators at the same time, and one of these fails,
// in every way, and whichever it is. Its calls return their error, and the others continue; when a rank is lost, all
// return it.
func TestConcurrentFailures(t *testing.T) {
	const size, goroutines = 3, 8
	for name, want := range map[string]error{"cancel": ErrCanceled, "abort": ErrAborted, "close": ErrPeerClosed,
		"stall": ErrStalled, "lost": ErrRankLost} {
		for failing := range goroutines {
			if failing > 1 && failing < goroutines-1 && !testutil.Thorough() {
				continue
			}
			t.Run(fmt.Sprint(name, failing), func(t *testing.T) {
				t.Parallel()
				f := &failure{way: name, failing: failing, want: want}
				f.seen.Add(size - 1)
				for r, err := range runRanks(t, size, func(w *fakeWorld, c *Comm) error {
					if err := f.run(t.Context(), w, c, goroutines); err != nil {
						t.Errorf("rank %d: %v", c.Rank(), err)
					}
					return nil
				}, WithGraph(topo.UniformGraph(size))) {
					if err != nil && name != "lost" { // then Close returns it
						t.Errorf("rank %d: %v", r, err)
					}
				}
			})
		}
	}
}

// failure is a case in which one of several communicators fails.
type failure struct {
	way     string
	failing int // index of the communicator that fails
	want    error
	seen    sync.WaitGroup // ranks that have returned it
}

func (f *failure) run(ctx context.Context, w *fakeWorld, c *Comm, goroutines int) error {
	comms, errs := make([]*Comm, goroutines), make([]error, goroutines)
	for i := range comms {
		var opts []Option
		if i == f.failing && f.way == "stall" {
			opts = append(opts, WithStallTimeout(300*time.Millisecond))
		}
		var err error
		if comms[i], err = c.Split(ctx, 0, 0, opts...); err != nil {
			return err
		}
		defer comms[i].Close()
	}
	var group sync.WaitGroup
	for i := range comms {
		group.Go(func() { errs[i] = f.wait(ctx, w, comms[i], i) })
	}
	group.Wait()
	for i, err := range errs {
		re := (*RankError)(nil)
		switch fails := i == f.failing || f.way == "lost"; {
		case w.Rank() == 0 && fails:
		case fails && (!errors.Is(err, f.want) || !errors.As(err, &re)):
			return fmt.Errorf("communicator %d: %v, want %v", i, err, f.want)
		case !fails && err != nil:
			return fmt.Errorf("communicator %d: %w", i, err)
		}
	}
	return nil
}

// wait makes the call of one goroutine. Rank 0 makes none on the communicator that fails, and the others after that.
func (f *failure) wait(ctx context.Context, w *fakeWorld, c *Comm, i int) error {
	x := []int32{1}
	switch {
	case w.Rank() == 0 && i == f.failing:
		time.Sleep(50 * time.Millisecond) // the others wait, and most of them sleep
		switch f.way {
		case "abort":
			c.Abort(errors.New("enough"))
		case "close":
			return c.Close()
		case "lost":
			w.Fail(0, errors.New("killed by SIGKILL"))
		}
		return nil
	case w.Rank() == 0:
		if f.way == "lost" {
			return nil
		}
		f.seen.Wait()
	case w.Rank() == 1 && i == f.failing && f.way == "cancel":
		within, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		ctx = within
	}
	err := AllReduce(ctx, c, x, x, Sum)
	if i == f.failing {
		f.seen.Done()
	}
	if err == nil && x[0] != 3 {
		err = fmt.Errorf("the sum is %d", x[0])
	}
	return err
}
