//go:build cgo && linux

package devices

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/transport"
)

// TestMain runs the tests on a fake host.
func TestMain(m *testing.M) { fakegpu.Main(m, "dgx1v/0-1") }

// opener is one of two ranks, goroutines with a GPU each, that open their devices again and again.
type opener struct {
	world *testutil.World
	c     *setup.Setup
	dev   *cuda.Device

	// What fails on this rank: nil or -1 is nothing.
	gather  int   // the number of the AllGather of the opening
	links   error // Links.Open
	alloc   error // Endpoint.Alloc
	view    error // Endpoint.View of memory
	blocks  int   // that Endpoint.Alloc has returned, and Free has not had
	gathers int   // of the opening so far
}

var errTest = errors.New("the test says so")

// onOpeners runs body as two ranks on hosts. Their devices' graph is given unless it is to be measured.
func onOpeners(t *testing.T, hosts []int, measured bool, body func(o *opener) error) {
	t.Helper()
	fakegpu.Need(t)
	all, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	before := cuda.Stats()
	job := testutil.NewJob(hosts...)
	job.Patience = time.Minute
	errs := job.Run(t, func(w *testutil.World) error {
		c, err := setup.New(t.Context(), testutil.Hosted{World: w}, func(c *setup.Config) {
			c.Graph = testutil.GraphOn(hosts)
			if !measured {
				c.DeviceGraph = topo.UniformGraph(len(hosts))
			}
		})
		if err != nil {
			return err
		}
		o := &opener{world: w, c: c, dev: all[w.Rank()], gather: -1}
		c.Endpoint = countedEndpoint{c.Endpoint, o}
		return errors.Join(body(o), c.Endpoint.Close())
	})
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	after := cuda.Stats()
	if after.Contexts = before.Contexts; after != before {
		t.Errorf("open before %+v, after %+v", before, after)
	}
}

// open opens the devices of all ranks, and closes them again. Nothing stays allocated, whether it fails or not.
func (o *opener) open(ctx context.Context) error {
	o.gathers = 0
	s, err := Open(ctx, o.c, o, openingWorld{o.c.World, o}, o.dev)
	if s != nil {
		s.Finish()
		err = errors.Join(err, s.Close())
	}
	if _, late := o.world.AllGather(ctx, nil); late != nil { // all have ended
		return late
	}
	now := cuda.Stats()
	if now.Contexts = 0; now != (cuda.Counts{}) || o.blocks != 0 {
		err = fmt.Errorf("left on the devices: %+v; %d blocks of shared memory: %v", now, o.blocks, err)
	}
	_, late := o.world.AllGather(ctx, nil) // all have looked
	return errors.Join(err, late)
}

// Abort and Open make an opener the Links of its communicator.
func (o *opener) Abort(f transport.Fault) transport.Fault {
	o.c.Endpoint.Abort(f)
	return f
}

func (o *opener) Open(ctx context.Context, _, purpose string, layout transport.Layout) (transport.Endpoint, error) {
	if o.links != nil {
		return nil, o.links
	}
	w := o.c.World
	return o.c.Config.Connect(ctx, w, w.AllGather, purpose, layout)
}

// openingWorld is the World in which devices are opened.
type openingWorld struct {
	setup.World
	o *opener
}

func (w openingWorld) AllGather(ctx context.Context, blob []byte) ([][]byte, error) {
	if w.o.gathers++; w.o.gathers-1 == w.o.gather {
		return nil, errTest
	}
	return w.World.AllGather(ctx, blob)
}

// countedEndpoint is the Endpoint of an opener.
type countedEndpoint struct {
	transport.Endpoint
	o *opener
}

func (e countedEndpoint) Alloc(n int) ([]byte, error) {
	if e.o.alloc != nil {
		return nil, e.o.alloc
	}
	b, err := e.Endpoint.Alloc(n)
	if err == nil {
		e.o.blocks++
	}
	return b, err
}

func (e countedEndpoint) View(r, at, n int) ([]byte, error) {
	if e.o.view != nil && n > 0 {
		return nil, e.o.view
	}
	return e.Endpoint.View(r, at, n)
}

func (e countedEndpoint) Free(b []byte) error {
	e.o.blocks--
	return e.Endpoint.Free(b)
}

// If an exchange of the opening fails, as when a rank is lost, every rank gets that error and gives all back: whichever
// exchange it is.
func TestOpeningWithoutExchange(t *testing.T) {
	for name, w := range map[string]struct {
		hosts    []int
		measured bool
	}{"one host": {[]int{0, 0}, false}, "two hosts": {[]int{0, 1}, false}, "measured": {[]int{0, 0}, true}} {
		t.Run(name, func(t *testing.T) {
			onOpeners(t, w.hosts, w.measured, func(o *opener) error {
				for o.gather = 0; ; o.gather++ {
					err := o.open(t.Context())
					if o.gather == o.gathers { // there is no such exchange
						return err
					}
					if !errors.Is(err, errTest) {
						return fmt.Errorf("exchange %d fails: %v", o.gather, err)
					}
				}
			})
		})
	}
}

// If a step of the opening fails on one rank, all ranks get at once an ErrDevice that names that rank and the reason,
// nothing stays allocated, and the ranks can open their devices afterwards.
func TestOpeningStepFails(t *testing.T) {
	for name, w := range map[string]struct {
		rank int
		fail func(o *opener)
		text string
	}{
		"plan":  {1, func(o *opener) { o.c.Config.DeviceGraph = topo.UniformGraph(3) }, "the graph of devices has 3 ranks"},
		"share": {0, func(o *opener) { o.alloc = errTest }, "memory that the ranks of this host share"},
		"view":  {1, func(o *opener) { o.view = errTest }, "memory that the ranks of this host share"},
	} {
		t.Run(name, func(t *testing.T) {
			onOpeners(t, []int{0, 0}, false, func(o *opener) error {
				if o.c.Rank == w.rank {
					w.fail(o)
				}
				began := time.Now()
				err := o.open(t.Context())
				if waited := time.Since(began); waited > leaveMax {
					return fmt.Errorf("the failure took %v: %w", waited, err)
				}
				var failed *setup.RankError
				if !errors.As(err, &failed) || failed.Rank != w.rank || !errors.Is(err, setup.ErrDevice) ||
					!strings.Contains(err.Error(), w.text) {
					return fmt.Errorf("want a failure of rank %d, %s, not %w", w.rank, w.text, err)
				}
				o.c.Config.DeviceGraph, o.alloc, o.view = topo.UniformGraph(2), nil, nil
				return o.open(t.Context())
			})
		})
	}
	t.Run("connect", func(t *testing.T) {
		onOpeners(t, []int{0, 1}, false, func(o *opener) error {
			o.links = errTest // the communicator has failed on all ranks
			if err := o.open(t.Context()); !errors.Is(err, errTest) {
				return fmt.Errorf("want the failure of the links, not %w", err)
			}
			o.links = nil
			return o.open(t.Context())
		})
	})
}

// A rank frees its memory only when the other ranks of its host have unmapped it: Close waits for them.
func TestCloseWaits(t *testing.T) {
	var leaving atomic.Bool
	onOpeners(t, []int{0, 0}, false, func(o *opener) error {
		s, err := Open(t.Context(), o.c, o, o.c.World, o.dev)
		if err != nil {
			return err
		}
		if o.c.Rank == 1 {
			time.Sleep(200 * time.Millisecond)
			leaving.Store(true)
		}
		s.Finish()
		err = s.Close()
		if !leaving.Load() {
			err = errors.Join(err, errors.New("it has closed before the other rank began to"))
		}
		_, late := o.world.AllGather(t.Context(), nil)
		return errors.Join(err, late)
	})
}
