//go:build cgo && linux

package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/internal/comm"
	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/collective/internal/devices"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
)

// deviceTrial is a trial whose memory is on a device.
type deviceTrial interface {
	trial
	onDevice(ctx context.Context, s *cuda.Stream) error
}

// deviceCases returns a random selection of the calls that run on devices.
func deviceCases(size int, rng *rand.Rand, few int) []testCase {
	var all []testCase
	for _, kind := range devices.Kinds {
		for _, base := range variants(kind) {
			for i, n := range counts {
				for j, typed := range elementTypes[:deviceTypes] {
					cl := base
					cl.count = n
					if kind.HasRoot() {
						cl.root = (i + j + int(base.op)) % size
					}
					all = append(all, testCase{cl, typed})
				}
			}
		}
	}
	return drawn(all, few, few/8, rng)
}

// TestDeviceCalls makes device calls of every kind, with every element type and
// operation, in place and not, from one element to many, and compares all memory
// with the oracle. Ranks have a GPU of a DGX-1V each, or two share one; or a peer link is
// broken, or there is none; or they are on two hosts. Only there links go through the hosts.
// The plans of 8 GPUs take seconds of a processor: by itself go test lets 6 ranks share 3, and has no 2 or 8 ranks with
// a GPU each.
func TestDeviceCalls(t *testing.T) {
	few, one := testutil.Count(8, 60), []string{"dgx1v"}
	jobs := []fakegpu.Job{{Hosts: one, Ranks: 1}, {Hosts: one, Ranks: 3},
		{Hosts: one, Ranks: 4, Env: []string{"TREERUN_FAKE_GPU_BROKEN=0-3"}},
		{Hosts: one, Ranks: 4, Env: noPeers}, {Hosts: one, Ranks: 3, Env: slowReads}}
	if testutil.Thorough() {
		jobs = append(jobs, fakegpu.Job{Hosts: one, Ranks: 2}, fakegpu.Job{Hosts: one, Ranks: 8},
			fakegpu.Job{Hosts: one, Ranks: 2, Env: noPeers}, fakegpu.Job{Hosts: one, Ranks: 8, Env: noPeers},
			fakegpu.Job{Hosts: one, Ranks: 4, Env: slowReads},
			fakegpu.Job{Hosts: one, Ranks: 16}, fakegpu.Job{Hosts: []string{"dgx1v/0-3", "dgx1v/4-7"}, Ranks: 4})
	} else {
		jobs = append(jobs, fakegpu.Job{Hosts: []string{"dgx1v/0-2"}, Ranks: 6},
			fakegpu.Job{Hosts: []string{"dgx1v/0-2", "dgx1v/4-6"}, Ranks: 3})
	}
	if testutil.Race {
		few, jobs = 8, []fakegpu.Job{{Hosts: one, Ranks: 1}, {Hosts: one, Ranks: 2}, {Hosts: one, Ranks: 3}}
	}
	if fakegpu.Real() { // each of its steps is one of these
		few, jobs = 60, []fakegpu.Job{{Hosts: one, Ranks: 2}, {Hosts: one, Ranks: 4}, {Hosts: one, Ranks: 8}}
	}
	for _, j := range jobs {
		size := j.Ranks * len(j.Hosts)
		on := strings.ReplaceAll(fmt.Sprint(j.Hosts), "/", ":")
		t.Run(fmt.Sprint(size, " on ", on, j.Env), func(t *testing.T) {
			j.Env = append(j.Env, "TREERUN_FAKE_GPU_JITTER=30:7")
			if !asRanks(t, j) {
				return
			}
			few := few
			if size == 16 {
				few /= 4 // large ones take most of the time
			}
			cases := deviceCases(size, rand.New(rand.NewPCG(uint64(size), 5)), few)
			mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
				defer func() {
					if relayed := len(c.in.Links.Opened) > 0; relayed != (len(j.Hosts) > 1) {
						t.Errorf("relayed on %d hosts: %v", len(j.Hosts), relayed)
					}
					pushed := c.in.Devices.Session.Locations[0][size-1] == device.InReader
					if pushed != slices.Contains(j.Env, slowReads[0]) {
						t.Errorf("pushed, with %v: %v", j.Env, pushed)
					}
				}()
				for i, tc := range cases {
					tr := tc.typed(c, tc.call).(deviceTrial)
					if err := tr.onDevice(t.Context(), s); err != nil {
						return fmt.Errorf("case %d, %v: %w", i, tr, err)
					}
					if err := tr.check(); err != nil {
						return fmt.Errorf("case %d: %w", i, err)
					}
				}
				return nil
			})
		})
	}
}

// TestManyDeviceCalls: more calls than can be in flight, on two streams and between calls on the host, are done in
// order.
func TestManyDeviceCalls(t *testing.T) {
	const n, count = 3, 50
	if !asProcesses(t, n, "dgx1v", "TREERUN_FAKE_GPU_JITTER=10:3") {
		return
	}
	calls := testutil.Count(1, 2)*comm.InFlight + 7
	mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) (err error) {
		ctx := t.Context()
		two, err := s.Device().NewStream()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, two.Close()) }()
		x, err := cuda.Alloc[uint64](s.Device(), count)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, x.Free()) }()
		host := make([]uint64, count)
		for i := range host {
			host[i] = uint64(c.Rank() + i)
		}
		if err := x.CopyFrom(ctx, s, host); err != nil {
			return err
		}
		want := make([]uint64, count)
		for i := range want {
			for r := range n {
				want[i] += uint64(r + i)
			}
		}
		for k := range calls {
			stream := s
			if k%5 == 4 {
				stream = two
			}
			if err := AllReduceDevice(ctx, c, stream, x, x, Sum); err != nil {
				return err
			}
			for i := range want {
				if k > 0 {
					want[i] *= n
				}
			}
			if k%100 == 99 {
				if err := Barrier(ctx, c); err != nil {
					return err
				}
			}
		}
		if err := errors.Join(c.SyncDevice(ctx, two), c.SyncDevice(ctx, s)); err != nil {
			return err
		}
		if err := x.CopyTo(ctx, s, host); err != nil {
			return err
		}
		for i := range want {
			if host[i] != want[i] {
				return fmt.Errorf("element %d is %d, want %d", i, host[i], want[i])
			}
		}
		return nil
	})
}

// TestDeviceSurvey: the links of devices are measured the first time and kept; a
// second communicator takes them from there, and the results are right on the graph
// of a DGX-1, where not all pairs have a link: of five of its GPUs, or of all eight. With
// the race detector, which makes planning slow, there are four, and all pairs have one.
func TestDeviceSurvey(t *testing.T) {
	ranks, gpus, linked := 5, "dgx1v/0-4", 7
	switch {
	case testutil.Race:
		ranks, gpus, linked = 4, "dgx1v/0-3", 6
	case testutil.Thorough():
		ranks, gpus, linked = 8, "dgx1v", 16
	}
	if !asProcesses(t, ranks, gpus) {
		return
	}
	cache := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "links")
	for round := range 2 {
		mustRunOnDevice(t, func(c *Comm, s *cuda.Stream) error {
			const n = 5000
			x, err := cuda.Alloc[int32](s.Device(), n)
			if err != nil {
				return err
			}
			mine := make([]int32, n)
			for i := range mine {
				mine[i] = int32(c.Rank() + i)
			}
			if err := x.CopyFrom(t.Context(), s, mine); err != nil {
				return err
			}
			if err := AllReduceDevice(t.Context(), c, s, x, x, Sum); err != nil {
				return err
			}
			if err := x.CopyTo(t.Context(), s, mine); err != nil {
				return err
			}
			for i, v := range mine {
				if want := int32(ranks*(ranks-1)/2 + ranks*i); v != want {
					return fmt.Errorf("round %d, element %d: %d, want %d", round, i, v, want)
				}
			}
			g, measured := c.DeviceGraph(), 0
			for _, l := range g.Links {
				if l.Source == topo.Measured && l.Declared > 0 {
					measured++
				}
			}
			if len(g.Links) != ranks*(ranks-1)/2 || measured != linked {
				return fmt.Errorf("round %d: graph %v", round, g)
			}
			return x.Free()
		}, WithTopoCache(cache))
		files, err := filepath.Glob(filepath.Join(cache, "*"))
		if err != nil || len(files) == 0 {
			t.Errorf("kept: %v, %v", files, err)
		}
	}
}
