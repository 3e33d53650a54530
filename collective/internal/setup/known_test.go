package setup

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
)

// epoch is an epoch of a job.
type epoch struct {
	number  int
	hosts   string // of the ranks, a letter each
	origins []int
	fresh   []int // origins whose processes know nothing
	options []Option
	setting map[string]string
}

// renewed is a rank of it.
type renewed struct {
	testutil.Hosted
	job string
	*epoch
}

func (w *renewed) JobID() string            { return w.job }
func (w *renewed) Epoch() int               { return w.number }
func (w *renewed) HostName(rank int) string { return w.epoch.hosts[rank : rank+1] }

// found is the knowledge of the ranks of an epoch.
type found struct {
	graph   *topo.Graph
	between *Between
	gain    float64
	rounds  int    // the AllGathers of New
	prices  string // how the plan of an AllReduce of 4 KiB was chosen
}

// live runs New on the ranks of an epoch of a job, and returns their findings, the same on all.
func (e *epoch) live(t *testing.T, job string) found {
	t.Helper()
	for _, origin := range e.fresh {
		member{job, origin}.remember(func(*memory) *memory { return nil })
	}
	var names, hosts []int
	for _, name := range []byte(e.hosts) {
		if !slices.Contains(names, int(name)) {
			names = append(names, int(name))
		}
		hosts = append(hosts, slices.Index(names, int(name)))
	}
	all := make([]found, len(hosts))
	errs := testutil.NewJob(hosts...).Run(t, func(of *testutil.World) error {
		of.Settings = map[string]string{"start-timeout": "30s"}
		maps.Copy(of.Settings, e.setting)
		of.Waits().Origins = e.origins
		options := append([]Option{func(c *Config) { c.Cache, c.HeapBytes = &probe.Cache{}, 2<<20 }}, e.options...)
		s, err := New(t.Context(), &renewed{testutil.Hosted{World: of}, job, e}, options...)
		if err != nil {
			return err
		}
		c, err := s.Plans.Planner.Choose(plan.AllReduce, -1, 4<<10)
		if err != nil {
			return err
		}
		all[of.Rank()] = found{s.Plans.Graph(), s.Between, s.lending.Gain, of.Round(), c.By}
		s.Retire()
		s.Waiter.Watch.Close()
		return s.Endpoint.Close()
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r, f := range all {
		if f.graph.Digest() != all[0].graph.Digest() || f.gain != all[0].gain || f.prices != all[0].prices {
			t.Errorf("rank %d found %v, and rank 0 %v", r, f, all[0])
		}
	}
	return all[0]
}

// The ranks of a later epoch have the graph and the gains of the first one, without a measurement, and its choices. A
// process that knows nothing gets them from another rank, also rank 0.
func TestLaterEpochsMeasureNothing(t *testing.T) {
	for name, epochs := range map[string][]epoch{
		"shrink": {
			{hosts: "aaaa", origins: []int{0, 1, 2, 3}},
			{hosts: "aaa", origins: []int{0, 2, 3}},
			{hosts: "aa", origins: []int{2, 3}},
			{hosts: "a", origins: []int{3}},
		},
		"respawn": {
			{hosts: "aaa", origins: []int{0, 1, 2}},
			{hosts: "aaa", origins: []int{0, 1, 2}, fresh: []int{1}},
			{hosts: "aaa", origins: []int{0, 1, 2}, fresh: []int{0, 1}},
			{hosts: "aaa", origins: []int{0, 1, 2}, fresh: []int{2}},
		},
		"hosts": {
			{hosts: "abac", origins: []int{0, 1, 2, 3}},
			{hosts: "abac", origins: []int{0, 1, 2, 3}, fresh: []int{0}},
			{hosts: "bac", origins: []int{1, 2, 3}},
			{hosts: "ac", origins: []int{2, 3}},
			{hosts: "aa", origins: []int{0, 2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := epochs[0].live(t, t.Name())
			for _, e := range epochs[1:] {
				got, want := e.live(t, t.Name()), first.graph.Among(e.origins)
				if len(e.origins) > 1 && got.graph.Digest() != want.Digest() {
					t.Errorf("%v: %v, want %v", e, got.graph, want)
				}
				if len(e.origins) > 1 && first.between == nil && got.gain != first.gain {
					t.Errorf("%v: gain %v, want %v", e, got.gain, first.gain)
				}
				if got.rounds >= first.rounds {
					t.Errorf("%v: %d AllGathers, the first epoch took %d", e, got.rounds, first.rounds)
				}
				if b := got.between; (b == nil) != (strings.Trim(e.hosts, e.hosts[:1]) == "") {
					t.Errorf("%v: the network is %v", e, b)
				} else if b != nil && strings.Join(b.Network.Hosts, "") != e.hosts[:len(b.Network.Hosts)] &&
					e.hosts != "abac" {
					t.Errorf("%v: the network is of %v", e, b.Network.Hosts)
				}
			}
		})
	}
}

// Choices of an earlier epoch are taken over while nearly all ranks are left, and only for the same settings.
func TestEarlierChoices(t *testing.T) {
	stable := []Option{func(c *Config) { c.Planning.Stable = true }}
	const earlier = "price for the 4 ranks of an earlier epoch"
	for _, e := range []epoch{
		{hosts: "aaaa", origins: []int{0, 1, 2, 3}},
		{hosts: "aaa", origins: []int{0, 2, 3}},
		{hosts: "aaa", origins: []int{0, 2, 3}, fresh: []int{0}},
		{hosts: "aa", origins: []int{2, 3}},
		{hosts: "aaa", origins: []int{0, 2, 3}, options: stable},
	} {
		taken := e.live(t, t.Name()).prices == earlier
		if want := len(e.hosts) == 3 && e.options == nil; taken != want {
			t.Errorf("%v: taken over is %v, want %v", e, taken, want)
		}
	}
}

// Ranks measure again where the earlier measurements are not about all of them, or a rank is on another host now.
func TestEpochsThatMeasure(t *testing.T) {
	measured := func(e epoch, job string) bool {
		old := recallOf(job, e.origins[0])
		e.live(t, job)
		return recallOf(job, e.origins[0]) != old
	}
	for _, e := range []struct {
		epoch
		want bool
	}{
		{epoch{hosts: "abb", origins: []int{0, 1, 2}}, true},
		{epoch{hosts: "abb", origins: []int{0, 1, 2}}, false},
		{epoch{hosts: "abb", origins: []int{0, 1, 3}}, true},                        // one has joined
		{epoch{hosts: "acc", origins: []int{0, 1, 3}}, true},                        // to another host
		{epoch{hosts: "aac", origins: []int{0, 1, 3}}, true},                        // one of them
		{epoch{hosts: "aac", origins: []int{0, 1, 3}, fresh: []int{0, 1, 3}}, true}, // none knows
		{epoch{hosts: "aac", origins: []int{0, 1, 3}, fresh: []int{0, 3}}, false},   // one does
	} {
		if got := measured(e.epoch, t.Name()); got != e.want {
			t.Errorf("%v: measured is %v, want %v", e.epoch, got, e.want)
		}
	}
}

// A graph and a plan of the launcher's are for the ranks that the job began with: the others have their part of the
// graph, and no plan.
func TestGivenForTheFirstRanks(t *testing.T) {
	dgx, _ := topo.Machine("dgx1v")
	e := epoch{number: 1, hosts: "aaaaaa", origins: []int{0, 2, 3, 4, 6, 7},
		setting: map[string]string{settingGraph: "dgx1v", settingPlan: "no plan"}}
	if f, want := e.live(t, t.Name()), dgx.Among(e.origins); f.graph.Digest() != want.Digest() {
		t.Errorf("%v, want %v", f.graph, want)
	}
}

// recallOf returns the measurements that a rank remembers.
func recallOf(job string, origin int) string {
	memories.Lock()
	defer memories.Unlock()
	if m := memories.of[member{job, origin}]; m != nil {
		return m.digest
	}
	return ""
}

// Where ranks remember different measurements, all measure.
func TestDifferentMemories(t *testing.T) {
	e := epoch{hosts: "aa", origins: []int{0, 1}}
	e.live(t, t.Name())
	member{t.Name(), 1}.remember(func(old *memory) *memory {
		k := *old.Known
		k.Gains = &probe.Gains{Few: 77, Many: 77}
		return &memory{Known: &k, digest: k.digest()}
	})
	if f := e.live(t, t.Name()); f.gain == 77 {
		t.Error("the gain of one rank is that of all")
	}
	if a, b := recallOf(t.Name(), 0), recallOf(t.Name(), 1); a != b {
		t.Error("the ranks still remember different measurements")
	}
}

// FuzzMemory: knowledge of another rank is refused, or makes a graph of any of its ranks.
func FuzzMemory(f *testing.F) {
	places := make([]probe.Place, 3)
	links := topo.UniformGraph(2)
	for _, k := range []knowledge{
		{Origins: []int{0, 2, 5}, Hosts: []int{0, 0, 0}, Found: &probe.Findings{Places: places,
			Pairs: []probe.Pair{{A: 0, B: 1, LatencyUs: 1, GBytesPerSecond: 1}}}, Gains: &probe.Gains{Few: 1}},
		{Origins: []int{1, 0}, Hosts: []int{0, 1}, Names: []string{"a", "b"}, Graph: testutil.GraphOn([]int{0, 1}),
			Network: &network.Network{Hosts: []string{"a", "b"}, Graph: *links}},
		{Origins: []int{1}, Hosts: []int{0}, Gains: &probe.Gains{Few: math.NaN()}},
	} {
		f.Add(strict.Marshal(&k))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k := new(knowledge)
		if strict.Unmarshal(b, k) != nil || len(b) > 1<<16 || k.check() != nil || !k.measured() {
			return
		}
		if len(k.Origins) > 40 { // time
			return
		}
		for first := range k.Origins {
			members := []int{}
			for r := first; r < len(k.Origins); r++ {
				members = append(members, r)
			}
			g, between := k.graph(members)
			if full := g.full(); full.Ranks != len(members) {
				t.Errorf("a graph of %d ranks, want %d", full.Ranks, len(members))
			}
			if between != nil && len(between.Network.Hosts) > len(members) {
				t.Errorf("%d hosts of %d ranks", len(between.Network.Hosts), len(members))
			}
		}
	})
}
