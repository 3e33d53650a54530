package setup

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/probe"
)

// knowledge is what the ranks of a job have measured in one of its epochs. It does not change.
type knowledge struct {
	Origins []int            // by rank
	Hosts   []int            // by rank: its host
	Names   []string         // by host; nil for one host
	Found   *probe.Findings  // about the links of one host; nil: not measured
	Graph   *topo.Graph      // of ranks on several hosts; nil: not measured
	Network *network.Network // between these
	Gains   *probe.Gains     // of lending; nil: not measured
}

// memory is what a rank knows of earlier epochs, and what a survivor sends to a rank that knows nothing.
type memory struct {
	Known   *knowledge
	Choices *planner.Earlier // of the latest communicator that was closed; nil: none
	For     string           // the settings of that
	digest  string           // of Known
}

// digest distinguishes knowledge.
func (k *knowledge) digest() string {
	sum := sha256.Sum256(strict.Marshal(k))
	return string(sum[:16])
}

// member is a rank of a job, by its origin.
type member struct {
	job    string
	origin int
}

// memories has the memory of the ranks of this process: a World does not outlive its epoch.
var memories struct {
	sync.Mutex
	of map[member]*memory
}

// originsOf returns the origins of the ranks of w, nil for a part of a job, and where no epoch may follow that of w.
func originsOf(w World) []int {
	if _, part := w.(*SubWorld); part {
		return nil
	}
	return waitsOf(w).Origins
}

// memberOf returns the key to the memory of this rank, false where no epoch may follow that of w.
func memberOf(w World) (m member, renews bool) {
	origins := originsOf(w)
	if origins == nil {
		return m, false
	}
	return member{w.JobID(), origins[w.Rank()]}, true
}

// laterEpoch reports whether w is that of a later epoch, which may have fewer ranks.
func laterEpoch(w World) bool {
	n, is := networkOf(w)
	return is && n.Epoch() > 0 && originsOf(w) != nil
}

// amongOrigins returns the part of a graph of the first epoch's ranks for those with these origins, and g where it has
// not all of them.
func amongOrigins(g *topo.Graph, origins []int) *topo.Graph {
	if slices.Max(origins) >= g.Ranks {
		return g
	}
	return g.Among(origins)
}

// recall returns this rank's memory, as far as it is about the ranks of w; nil for none.
func recall(w World) *memory {
	m, renews := memberOf(w)
	if !renews {
		return nil
	}
	memories.Lock()
	defer memories.Unlock()
	if known := memories.of[m]; known != nil && known.Known.among(w) != nil {
		return known
	}
	return nil
}

// remember replaces this rank's memory.
func (m member) remember(update func(old *memory) *memory) {
	memories.Lock()
	defer memories.Unlock()
	if memories.of == nil {
		memories.of = make(map[member]*memory)
	}
	memories.of[m] = update(memories.of[m])
}

// among returns, by rank of w, the numbers that k has for its ranks, nil where k is not about all of them, or not on
// the hosts where they are now.
func (k *knowledge) among(w World) []int {
	members := make([]int, 0, w.Size())
	hosts := make(map[int]int) // of w, by those of k
	for r, origin := range originsOf(w) {
		i := slices.Index(k.Origins, origin)
		if i < 0 {
			return nil
		}
		now, known := hosts[k.Hosts[i]]
		if !known {
			now = w.HostOf(r)
			hosts[k.Hosts[i]] = now
		}
		if now != w.HostOf(r) {
			return nil
		}
		if n, is := networkOf(w); is && k.Names != nil && n.HostName(r) != k.Names[k.Hosts[i]] {
			return nil
		}
		members = append(members, i)
	}
	if numbers := HostsOf(w); len(hosts) != slices.Max(numbers)+1 {
		return nil
	}
	return members
}

// check reports the first thing that is invalid in the knowledge of another rank.
func (k *knowledge) check() error {
	n := len(k.Origins)
	sorted := slices.Sorted(slices.Values(k.Origins))
	switch {
	case n == 0 || sorted[0] < 0 || len(slices.Compact(sorted)) != n:
		return fmt.Errorf("%d ranks, numbered %v", n, k.Origins)
	case len(k.Hosts) != n || slices.Min(k.Hosts) < 0 || slices.Max(k.Hosts) >= n:
		return fmt.Errorf("hosts %v of %d ranks", k.Hosts, n)
	case k.Names != nil && len(k.Names) != slices.Max(k.Hosts)+1:
		return fmt.Errorf("%d names for %d hosts", len(k.Names), slices.Max(k.Hosts)+1)
	case k.Found != nil && len(k.Found.Places) != n:
		return fmt.Errorf("findings about %d ranks, want %d", len(k.Found.Places), n)
	case (k.Graph == nil) != (k.Network == nil), k.Graph != nil && k.Found != nil:
		return fmt.Errorf("a graph without its network, or findings beside them")
	case k.Graph != nil && (k.Graph.Ranks != n || len(k.Network.Hosts) != slices.Max(k.Hosts)+1):
		return fmt.Errorf("a graph of %d ranks and %d hosts", k.Graph.Ranks, len(k.Network.Hosts))
	}
	for _, gain := range k.gains() {
		if !(gain >= 0 && gain < math.MaxFloat64) {
			return fmt.Errorf("a gain of %v", gain)
		}
	}
	switch {
	case k.Found != nil:
		return k.Found.Graph().Validate()
	case k.Graph == nil:
		return nil
	}
	if err := k.Network.Validate(); err != nil {
		return err
	}
	return k.Graph.Validate()
}

func (k *knowledge) gains() []float64 {
	if k.Gains == nil {
		return nil
	}
	return []float64{k.Gains.Few, k.Gains.Many}
}

// measured reports whether k has a graph.
func (k *knowledge) measured() bool { return k.Found != nil || k.Graph != nil }

// graph returns the graph of some ranks, and the network between their hosts.
func (k *knowledge) graph(members []int) (graph, *Between) {
	if k.Found != nil {
		return graphOf(k.Found).among(members), nil
	}
	g := whole(k.Graph).among(members)
	var hosts []int // of the members, in their order
	for _, r := range members {
		if !slices.Contains(hosts, k.Hosts[r]) {
			hosts = append(hosts, k.Hosts[r])
		}
	}
	if len(hosts) == 1 {
		return g, nil
	}
	return g, &Between{Network: k.Network.Renumber(hosts)}
}

// share returns the memory that all ranks have, nil where there is none. Their hellos have its digest; a rank that
// knows nothing, of a new process, gets it from the first of the others.
func (s *setup) share(all []hello) (*memory, error) {
	first, everyone := -1, true
	for r, h := range all {
		switch {
		case h.Known == "":
			everyone = false
		case first < 0:
			first = r
		case h.Known != all[first].Known:
			return nil, nil
		}
	}
	if first < 0 || everyone {
		return s.memory, nil
	}
	var mine *memory
	if s.rank == first {
		mine = s.memory
	}
	sent, err := agree.Exchange(s.ctx, s.world.AllGather, s.size, nil, mine, nil)
	if err == nil && s.memory == nil {
		err = fmt.Errorf("rank %d has sent none", first)
		if m := sent[first]; m != nil && m.Known != nil {
			if err = m.Known.check(); err == nil && m.Known.among(s.world) == nil {
				err = fmt.Errorf("rank %d has sent those of other ranks", first)
			}
			m.digest = all[first].Known
			s.memory = m
		}
	}
	if err != nil {
		return nil, fmt.Errorf("receiving the measurements of an earlier epoch: %w", err)
	}
	return s.memory, nil
}

// learn has this rank remember what its New has measured for w: fresh, of the links, and the gains; nil for either that
// was not measured. old is its memory before.
func learn(w World, hosts []int, old *memory, fresh *knowledge, gains *probe.Gains) {
	m, renews := memberOf(w)
	if !renews {
		return
	}
	k := new(knowledge)
	if old != nil {
		*k = *old.Known
	}
	if fresh != nil || old == nil {
		k.Origins, k.Hosts, k.Names = originsOf(w), hosts, nil
		if n, is := networkOf(w); is && !OneHost(hosts) {
			for _, r := range firstRanks(hosts) {
				k.Names = append(k.Names, n.HostName(r))
			}
		}
		if fresh != nil {
			k.Found, k.Graph, k.Network = fresh.Found, fresh.Graph, fresh.Network
		}
	}
	if gains != nil {
		k.Gains = gains
	}
	m.remember(func(of *memory) *memory {
		if of == nil {
			of = cmp.Or(old, new(memory))
		}
		return &memory{Known: k, Choices: of.Choices, For: of.For, digest: k.digest()}
	})
}

// rememberChoices has this rank remember the choices of its Planner.
func (s *Setup) rememberChoices() {
	if m, renews := memberOf(s.World); renews && s.Plans.Planner != nil {
		s.Plans.mu.Lock()
		choices := s.Plans.Planner.Choices()
		s.Plans.mu.Unlock()
		m.remember(func(old *memory) *memory {
			if old == nil {
				return nil
			}
			return &memory{Known: old.Known, digest: old.digest, Choices: choices, For: s.Config.chooses()}
		})
	}
}

// chooses names the settings that choices depend on beside the graph.
func (c *Config) chooses() string {
	return fmt.Sprint(c.Planning.String(), c.Graph != nil, c.Slots, c.SlotBytes)
}

// choices returns the choices to take over, nil for none.
func (m *memory) choices(c *Config) *planner.Earlier {
	if m == nil || m.For != c.chooses() {
		return nil
	}
	return m.Choices
}
