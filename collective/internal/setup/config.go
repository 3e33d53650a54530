package setup

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// Option changes a config.
type Option = func(*Config)

// connector opens the links of a layout between the ranks of a World, which exchange by an AllGather of all.
type connector func(ctx context.Context, w World, all allGather, purpose string, layout transport.Layout,
) (transport.Endpoint, error)

// Config has the settings that options change.
type Config struct {
	Graph            *topo.Graph
	DeviceGraph      *topo.Graph
	Members          []int // as each of them has given them, in ranks of the parent communicator; nil: none were given
	Slots, SlotBytes int
	Planning         planner.Options
	Planned          bool // whether WithAlgorithm was given
	File             *plan.File
	Given            *plan.Plan // the plan of WithPlan
	HeapBytes        int        // the bytes of the heap of each rank
	Stall, Settle    time.Duration
	StallTimeout     time.Duration // 0: the launcher's
	Name             string        // the name of WithName
	Logger           *slog.Logger  // nil: standard error
	Observe          func(Event)   // called after each call; nil: there is none
	TryLending       bool          // whether to measure if lending pays
	Replan           bool          // whether plans follow the links between hosts
	Cache            *probe.Cache
	Cores            int
	Connect          connector
}

// settleTime is the time that Close waits for the others to enter the calls of this rank.
const settleTime = time.Second

// newConfig returns the settings that opts and, where these have none, the settings of w make. The error is that of a
// setting that this rank cannot plan with.
func newConfig(w World, opts []Option) (*Config, error) {
	c := &Config{
		HeapBytes:  shm.HeapBytes(heapBytes),
		Stall:      10 * time.Second,
		Settle:     settleTime,
		Cores:      usableCores(w),
		Connect:    Connect,
		TryLending: !InOneProcess(w),
		Replan:     true,
	}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	return c, c.usePlanning(w)
}

// usableCores returns the number of cores that the ranks of this host may use.
func usableCores(w World) int {
	if n, err := strconv.Atoi(w.Setting("cores")); err == nil && n > 0 {
		return n // of all ranks; this one may be bound to its share
	}
	return job.UsableCores()
}

// Note writes a notice for users, which is not an error, on one rank: to the logger or, without one, to standard error.
func (c *Config) Note(text string) {
	switch {
	case text == "":
	case c.Logger == nil:
		fmt.Fprint(os.Stderr, text)
	default:
		defer func() {
			if why := recover(); why != nil { // a notice is no reason to leave a call that the other ranks make
				fmt.Fprintf(os.Stderr, "%streerun: the logger panicked: %v\n", text, why)
			}
		}()
		c.Logger.Info(strings.TrimRight(text, "\n"))
	}
}

// shared are the settings that must be the same on all ranks, in the order of their values in a hello.
var shared = []string{
	"the ranks of the communicator (Sub)",
	"the name of the communicator (WithName)",
	"the slots of a link (WithSlots)",
	"the graph (--graph, TREERUN_GRAPH or WithGraph)",
	"the graph of devices (WithDeviceGraph)",
	"the algorithm (--algorithm, TREERUN_ALGORITHM or WithAlgorithm)",
	"the plan (--plan, TREERUN_PLAN or WithPlan)",
	"plans for links that change (WithoutReplan)",
}

// values returns the values of the shared settings, in a form that users can compare.
func (c *Config) values() []string {
	given, slots, replans := "none", "as the planner has them", "made"
	if !c.Replan {
		replans = "not made"
	}
	graph := func(g *topo.Graph) string {
		if g == nil {
			return "measured"
		}
		return g.Digest()
	}
	if c.Given != nil && c.File != nil {
		given = fmt.Sprintf("%s in chunks of %d bytes", c.Given.Digest(), c.File.ChunkBytes)
		if c.File.MinChunkBytes > 0 && c.File.MinChunkBytes != c.File.ChunkBytes {
			given += fmt.Sprintf(" (narrow lanes: %d)", c.File.MinChunkBytes)
		}
	}
	if c.Slots > 0 || c.SlotBytes > 0 {
		slots = fmt.Sprintf("%d of %d bytes", c.Slots, c.SlotBytes)
	}
	return []string{
		cmp.Or(topo.RankList(c.Members), "in the World's order"), strconv.Quote(c.Name),
		slots, graph(c.Graph), graph(c.DeviceGraph),
		cmp.Or(c.Planning.String(), "any"), given, replans,
	}
}

// TopoCache returns the cache of link measurements, nil for none. A user without a cache directory is no reason to
// fail.
func (c *Config) TopoCache(w World) *probe.Cache {
	if s := w.Setting("no-topo-cache"); s != "" && s != Refresh {
		return nil
	}
	if c.Cache != nil {
		if c.Cache.Dir == "" {
			return nil
		}
		return c.Cache
	}
	cache, err := probe.UserCache()
	if err != nil {
		return nil
	}
	return &cache
}

// heapBytes is the number of bytes that a rank can Alloc, as far as there is memory. Memory and addresses it takes only
// when it is given out, addresses in steps.
const heapBytes = transport.MaxHeapBytes
