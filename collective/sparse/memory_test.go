//go:build linux

package sparse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
)

// sharedAddresses returns the number of bytes of addresses that this process has mapped of memory that ranks share.
func sharedAddresses() (n uint64, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "/memfd:treerun-") {
			continue
		}
		from, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		low, first := strconv.ParseUint(from, 16, 64)
		high, second := strconv.ParseUint(to, 16, 64)
		if first != nil || second != nil {
			return 0, fmt.Errorf("maps: %q", line)
		}
		n += high - low
	}
	return n, nil
}

// sharedMemory returns the total size in bytes of the files that this process has open as shared memory of its ranks.
func sharedMemory() (n int64, err error) {
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return 0, err
	}
	seen := make(map[uint64]bool)
	for _, f := range files {
		var st syscall.Stat_t
		if name, err := os.Readlink(f); err != nil || !strings.Contains(name, "memfd:treerun-") {
			continue // closed since, or another file
		}
		if err := syscall.Stat(f, &st); err == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			n += 512 * st.Blocks
		}
	}
	return n, nil
}

func full(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// The form Shared maps addresses for the calls that are made, not for all possible ones, and unmaps them when its
// communicator is closed and unreachable.
func TestSharedAddresses(t *testing.T) {
	const ranks = 4
	before, err := sharedAddresses()
	testutil.Need(t, testutil.Proc, err)
	mustRun(t, oneHost(ranks), func(_ *world, c *collective.Comm) error {
		for _, elements := range []int{1000, 4_500_000} {
			x := full(elements)
			most := max(64<<20, uint64(8*4*len(x))) + 1<<20 // with the links
			first, err := sharedAddresses()
			if err != nil {
				return err
			}
			if _, err := AllReduce(t.Context(), c, x, x, collective.Sum, Use(Shared)); err != nil {
				return err
			}
			second, err := sharedAddresses()
			if err != nil {
				return err
			}
			if more := second - min(first, second); more > ranks*ranks*most { // every rank maps the memory of all
				return fmt.Errorf("a call of %d bytes took %d bytes of addresses, want %d at most", 4*len(x), more,
					ranks*ranks*most)
			}
			if err := collective.Barrier(t.Context(), c); err != nil {
				return err
			}
		}
		return nil
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		after, err := sharedAddresses()
		if err != nil {
			t.Fatal(err)
		}
		if after <= before {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes of addresses are mapped after the ranks have closed, %d before", after, before)
		}
	}
}

// After a large call a rank keeps at most Keep bytes of memory once a smaller call or one in another form follows.
func TestSharedMemoryIsBounded(t *testing.T) {
	const ranks, keep = 3, 64 << 10
	_, err := sharedMemory()
	testutil.Need(t, testutil.Proc, err)
	large, small := full(300000), full(2000)
	mustRun(t, oneHost(ranks), func(_ *world, c *collective.Comm) error {
		call := func(x []float32, form Form) error {
			recv := make([]float32, len(x))
			s, err := AllReduce(t.Context(), c, x, recv, collective.Sum, Use(form))
			if err == nil && (s.Form != form || recv[0] != ranks || recv[len(x)-1] != ranks) {
				err = fmt.Errorf("%v gave %v and %v", s, recv[0], recv[len(x)-1])
			}
			return err
		}
		for _, form := range []Form{Shared, Trees, Dense} {
			if err := call(small, form); err != nil {
				return err
			}
		}
		stateOf(comm.Of(c)).host.Keep = keep
		before, err := agreed(t, c)
		for i, step := range []struct {
			x     []float32
			form  Form
			keeps bool
		}{
			{large, Shared, true}, {small, Shared, false}, {large, Shared, true}, {large, Shared, true}, {small, Shared, false},
			{large, Shared, true}, {small, Trees, false}, {large, Shared, true}, {small, Dense, false},
		} {
			if err := call(step.x, step.form); err != nil {
				return err
			}
			after, err := agreed(t, c)
			if err != nil {
				return err
			}
			if keeps := after-before > 4*int64(len(large)); keeps != step.keeps || !keeps && after-before > 2*ranks*keep {
				return fmt.Errorf("after call %d of %d bytes the ranks have %d bytes of shared memory, %d before", i, 4*len(step.x),
					after, before)
			}
		}
		return err
	})
}

// agreed returns the amount of memory that the ranks share at a moment when all of them have called it.
func agreed(t *testing.T, c *collective.Comm) (int64, error) {
	first := collective.Barrier(t.Context(), c)
	n, err := sharedMemory()
	return n, errors.Join(first, err, collective.Barrier(t.Context(), c))
}

// poor is an Endpoint whose memory for others is exhausted when fails returns true.
type poor struct {
	transport.Endpoint
	fails func(n int) bool
}

func (p *poor) Scratch(n int) ([]byte, error) {
	if p.fails(n) {
		return nil, syscall.ENOMEM
	}
	return p.Endpoint.Scratch(n)
}

// poorly makes the communicator open links for the form Shared whose memory is exhausted when fails returns true.
func poorly(c *collective.Comm, fails func(n int) bool) {
	s := stateOf(comm.Of(c))
	open := s.openLinks
	s.openLinks = func(ctx context.Context, during, purpose string, layout transport.Layout) (transport.Endpoint, error) {
		ep, err := open(ctx, during, purpose, layout)
		if ep != nil {
			ep = &poor{ep, fails}
		}
		return ep, err
	}
}

// If a rank has no memory for its blocks, or for its share of the sums, the call fails on all ranks, with advice in the
// error.
func TestSharedWithoutMemory(t *testing.T) {
	for allocated := range 2 { // the second is for results
		errs := runRanks(t, oneHost(4), func(_ *world, c *collective.Comm) error {
			allocs := 0
			poorly(c, func(int) bool {
				allocs++
				return allocs > allocated && c.Rank() == 1
			})
			return trial(t, c, patterns[10], Shared, collective.Sum, 30001, 256, false, float32s)
		})
		for r, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "rank 1 in sparse AllReduce") ||
				!strings.Contains(err.Error(), "cannot allocate memory; use another form than shared") {
				t.Errorf("rank %d, after %d blocks of memory: %v", r, allocated, err)
			}
		}
	}
}
