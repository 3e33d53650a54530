package collective

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// option changes a config.
type option = func(*config)

// connector opens the links of a layout between the ranks of a World.
type connector func(ctx context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, error)

type config struct {
	graph            *topo.Graph
	deviceGraph      *topo.Graph
	slots, slotBytes int
	planning         planner.Options
	planned          bool // by WithAlgorithm
	file             *plan.File
	given            *plan.Plan // of WithPlan
	heapBytes        int        // per rank
	stall, settle    time.Duration
	stallTimeout     time.Duration // 0: the launcher's
	name, splitName  string        // of WithName; of Split
	tryLending       bool          // find out whether lending pays, where that is not given
	cache            *probe.Cache
	cores            int
	boxes            []int // by rank: those with the same number share cores; nil: those of a host
	connect          connector
	devices          *devicePlanning // the plans are for devices; nil: they are not
}

func defaults() config {
	return config{
		heapBytes: shm.HeapBytes(heapBytes),
		stall:     10 * time.Second,
		settle:    time.Second,
		cores:     shm.UsableCores(),
		connect:   connect,

		tryLending: true,
	}
}

// digest names the settings that must be the same on all ranks.
func (c *config) digest() string {
	graph := "measured"
	if c.graph != nil {
		graph = c.graph.Digest()
	}
	only := cmp.Or(c.planning.String(), "any")
	if c.given != nil && c.file != nil {
		only += fmt.Sprintf(", given %s in chunks of %d bytes", c.given.Digest(), c.file.ChunkBytes)
	}
	name := ""
	if c.name != "" {
		name = fmt.Sprintf("name=%q ", c.name)
	}
	return name + fmt.Sprintf("slots=%dx%d plans=%s graph=%s", c.slots, c.slotBytes, only, graph)
}

// topoCache returns where measured graphs are kept, nil for nowhere. A user
// without a cache directory is no reason to fail.
func (c *config) topoCache(w World) *probe.Cache {
	if s := w.Setting("no-topo-cache"); s != "" && s != refresh {
		return nil
	}
	if c.cache != nil {
		if c.cache.Dir == "" {
			return nil
		}
		return c.cache
	}
	cache, err := probe.UserCache()
	if err != nil {
		return nil
	}
	return &cache
}

func connectShm(ctx context.Context, w World, purpose string, layout transport.Layout) (transport.Endpoint, error) {
	return shm.Connect(ctx, shm.Config{
		Rank:     w.Rank(),
		Layout:   layout,
		Key:      w.DeriveKey("shm " + purpose),
		JobID:    w.JobID(),
		Exchange: w.AllGather,
	})
}

// heapBytes is how much a rank can Alloc, as far as there is memory. Memory and
// addresses it takes only when it is given out, addresses in steps.
const heapBytes = transport.MaxHeapBytes
