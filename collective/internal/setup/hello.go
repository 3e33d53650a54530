package setup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
)

// protocol is the version of the messages below and of everything that must be the same on all ranks.
const protocol = 26

// hello is the first message of New.
type hello struct {
	Protocol  int
	Settings  []string          // the values of Config.values
	Refused   string            // the setting that the rank cannot plan with, and why
	Host      cachedHost        // from the first rank of a host; else empty
	Cores     int               // usable cores of the rank
	Machine   string            // whose cores these all are; empty: of this host only
	Place     probe.Place       // where it runs
	Decision  *planner.Decision // rank 0's for its host's graph, if that is all
	HeapBytes int               // that this rank can have
	Known     string            // the digest of its memory of an earlier epoch; empty: none
}

// hello returns this rank's hello and, where rank 0 has the graph of an earlier job, its plans: it decides before the
// other ranks' hellos arrive. refused is the error of a setting that this rank cannot plan with.
func (s *setup) hello(refused error) (h hello, early *Plans) {
	h = hello{
		Protocol: protocol, Settings: s.config.values(), Host: s.cachedHost(), Cores: s.config.Cores,
		Machine: job.MachineID(s.config.Cores), Place: s.place(), HeapBytes: s.config.HeapBytes,
	}
	if s.memory != nil {
		h.Known = s.memory.digest
	}
	if refused != nil {
		h.Refused = strings.TrimPrefix(refused.Error(), ErrArgument.Error()+": ")
	} else if g, known := s.earlyGraph(h.Host.Found); known {
		early = newPlans(g, 0, s.machine(s.config.Cores, s.hosts), s.config.Planning)
		early.earlier = s.memory.choices(s.config)
		h.Decision, _ = early.decide(early.firstKinds()) // an error comes again later, and is reported then
	}
	return h, early
}

// earlyGraph returns the graph that rank 0 knows before the first exchange, of ranks on one host: that of an earlier
// epoch of the job, or of an earlier job, which has found its links.
func (s *setup) earlyGraph(found *probe.Findings) (g graph, known bool) {
	switch {
	case s.rank > 0 || s.config.Graph != nil || s.size == 1 || !OneHost(s.hosts):
		return g, false
	case s.memory != nil && s.memory.Known.measured():
		g, _ = s.memory.Known.graph(s.memory.Known.among(s.world))
		return g, true
	case found != nil:
		return graphOf(found), true
	}
	return g, false
}

// agreement is what the hellos of all ranks amount to, the same on all.
type agreement struct {
	cores     int               // usable cores, which plans depend on
	heapBytes int               // that each rank can have
	coreHosts []int             // by rank: those with the same number share cores; nil: those of a host
	places    []probe.Place     // by rank
	cached    []cachedHost      // by rank
	decision  *planner.Decision // of rank 0, where it knows the graph; nil: it has not decided
	known     *memory           // of an earlier epoch, of which all ranks have the same measurements; nil: none
}

// oneMachine reports whether all hosts are one machine.
func (a *agreement) oneMachine() bool { return len(a.coreHosts) > 0 && OneHost(a.coreHosts) }

// agree sends this rank's hello to the other ranks, compares those of all, and returns what they amount to. refused is
// the error of a setting that this rank cannot plan with.
func (s *setup) agree(h hello, refused error) (a agreement, err error) {
	s.step("comparing settings")
	all, err := agree.Exchange(s.ctx, s.world.AllGather, s.size, nil, h, nil)
	if err != nil {
		return a, fmt.Errorf("comparing settings: %w", err)
	}
	if err := compareHellos(s.world, all, refused); err != nil {
		return a, err
	}
	a = agreement{cores: all[0].Cores, heapBytes: s.config.HeapBytes, decision: all[0].Decision}
	machines := make([]string, len(all))
	for r, h := range all {
		a.heapBytes = max(0, min(a.heapBytes, h.HeapBytes))
		a.places, a.cached = append(a.places, h.Place), append(a.cached, h.Host)
		machines[r] = h.Machine
	}
	a.coreHosts = job.SharedMachines(s.hosts, machines)
	if a.known, err = s.share(all); a.known == nil && all[0].Known != "" {
		a.decision = nil // which follows from measurements that other ranks do not have
	}
	return a, err
}

// compareHellos returns the first difference between the hellos of all ranks that is an error.
func compareHellos(w World, all []hello, refused error) error {
	version := func(h hello) string { return strconv.Itoa(h.Protocol) }
	if err := Agreed(w, "the protocol version", all, version); err != nil {
		return err
	}
	for r, h := range all {
		if h.Refused != "" && refused == nil {
			return fmt.Errorf("%w: rank %d: %s", ErrArgument, r, h.Refused)
		}
	}
	if refused != nil {
		return refused
	}
	for r, h := range all {
		if len(h.Settings) != len(shared) {
			return fmt.Errorf("message of rank %d: %d settings, want %d", r, len(h.Settings), len(shared))
		}
	}
	for i, what := range shared {
		if err := Agreed(w, what, all, func(h hello) string { return h.Settings[i] }); err != nil {
			return err
		}
	}
	return nil
}

// Agreed checks that all ranks of w have the same value of a thing. The error names
// every value and the ranks that have it, by their numbers for users.
func Agreed[T any](w World, what string, all []T, value func(T) string) error {
	var values []string
	ranks := make(map[string][]int)
	for r, v := range all {
		s := value(v)
		if ranks[s] == nil {
			values = append(values, s)
		}
		ranks[s] = append(ranks[s], numberOf(w, r))
	}
	if len(values) <= 1 {
		return nil
	}
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%s on %s", v, rankList(slices.Sorted(slices.Values(ranks[v]))))
	}
	return fmt.Errorf("%w on %s: %s", ErrDisagree, what, strings.Join(parts, "; "))
}

// rankList names rising ranks: "rank 3" or "ranks 0-2,5".
func rankList(ranks []int) string {
	if len(ranks) == 1 {
		return "rank " + topo.RankList(ranks)
	}
	return "ranks " + topo.RankList(ranks)
}
