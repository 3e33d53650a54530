package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
)

// Setup holds the settings, plans and links that the ranks of a World have agreed on and opened for a communicator.
type Setup struct {
	Rank, Size int
	Name       string
	World      World
	Config     *Config
	Graph      *topo.Graph
	Between    *Between // nil on one host
	Plans      *Plans
	Endpoint   transport.Endpoint
	Engine     *engine.Engine
	Waiter     engine.Waiter // how this rank waits
}

// causeWait is the time that a New that has failed waits for the World to report a lost rank as the cause.
const causeWait = time.Second

// New sets up a communicator of all ranks of w: see New of package collective.
func New(ctx context.Context, w World, opts ...Option) (*Setup, error) {
	cfg := defaults()
	if n, err := strconv.Atoi(w.Setting("cores")); err == nil && n > 0 {
		cfg.Cores = n // of all ranks; this one may be bound to its share
	}
	cfg.TryLending = !InOneProcess(w)
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	waiting, name := cfg.watchFor(w)
	within, cancel := waiting.Bound(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-w.Failed():
			cancel()
		case <-within.Done():
		}
	})
	s := setup{Setup: Setup{Rank: w.Rank(), Size: w.Size(), Name: name, World: w, Config: &cfg}, ctx: within,
		cores: cfg.Cores, wait: waiting}
	err := s.run()
	cause := s.whyNot(ctx, err)
	if err == nil {
		waiting.Clear()
	} else {
		waiting.GiveUp()
		waiting.Close()
	}
	cancel()
	watch.Wait()
	if err == nil {
		return &s.Setup, nil
	}
	refused := errors.Is(err, ErrDisagree) || errors.Is(err, ErrArgument)
	if !refused && cause == nil {
		select { // the World learns of a rank's end a moment later
		case <-w.Failed():
		case <-ctx.Done():
		case <-time.After(causeWait):
		}
	}
	if _, lost := w.Failure(); lost != nil {
		err = LostRank(w)
	}
	fault := transport.Fault{}
	switch {
	case errors.As(err, &fault):
		return nil, &RankError{Rank: fault.Rank, Op: "New", Err: ErrorOf(fault, nil)}
	case refused:
		return nil, fmt.Errorf("collective: %s: %w", callOf(w), err)
	case cause != nil:
		return nil, cause
	}
	return nil, &RankError{Rank: -1, Op: callOf(w), Err: err}
}

// whyNot names the rank that a New which has failed with err has waited for, nil when that
// is not why.
func (s *setup) whyNot(ctx context.Context, err error) *RankError {
	op := callOf(s.World)
	var known interface{ AtFault() int }
	switch {
	case err == nil:
	case errors.As(err, &known) && known.AtFault() >= 0: // the job's number
		return &RankError{Rank: s.wait.InComm(known.AtFault()), Op: op, Err: err}
	case s.wait.Stalled() != nil:
		stalled := s.wait.Stalled()
		return &RankError{Rank: s.wait.InComm(stalled.Rank), Op: op, Err: stalled}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		cause := s.wait.Why(context.WithoutCancel(ctx))
		return &RankError{Rank: s.wait.InComm(cause.Rank), Op: op, Err: fmt.Errorf("%w; it waited: %s", err, cause.Text)}
	}
	return nil
}

// step publishes the step that the New has reached.
func (s *setup) step(what string) {
	s.wait.Publish("New: "+what, time.Now(), nil)
}

// maxMeasuring is the least stall timeout while links are measured, which takes long on many hosts
// and has time limits of its own.
const maxMeasuring = 30 * time.Second

// measuring is the step of measuring links, until measured is called.
func (s *setup) measuring() (measured func()) {
	s.wait.Clear()
	restore := s.wait.AtLeast(maxMeasuring)
	s.step("measuring the links")
	return func() {
		s.wait.Clear()
		restore()
	}
}

// setup is a New under way.
type setup struct {
	Setup
	ctx    context.Context
	wait   *waits.Wait   // publishes the cause for which the New, and later a call, waits
	cores  int           // that this host lets its ranks use
	places []probe.Place // by rank

	// Where rank 0 knows the graph of an earlier job it plans and decides before the other ranks' hellos arrive.
	decision *planner.Decision // nil: it has not
}

func (s *setup) run() error {
	all, err := s.compare()
	if err != nil {
		return err
	}
	layout, ep, err := s.planAndConnect(all)
	if err != nil {
		return err
	}
	measured := s.measuring()
	gain, err := s.lendGain(ep, s.Plans.Messages)
	measured()
	if err != nil {
		return errors.Join(err, ep.Close())
	}
	s.Graph, s.Endpoint = s.Plans.graph, ep
	s.Waiter = waiterFor(HostsOf(s.World), s.Rank, s.cores)
	s.Waiter.Watch, s.Waiter.Progress = s.wait, s.wait.Progress()
	oversubscribed := slices.Max(RanksOnCores(s.Config.coreHosts, HostsOf(s.World))) > s.Config.Cores
	from := lendFrom(gain, !OneHost(HostsOf(s.World)))
	s.Engine = engine.New(ep, s.Rank, &layout, s.Plans.Messages, oversubscribed, from)
	s.Plans.engine = s.Engine
	if s.Rank == 0 && s.World.Setting("verbose") != "" {
		if s.Between != nil {
			s.Config.Note(s.Between.Text(time.Now().Unix()))
		}
		s.Config.Note(s.Plans.Explain())
		if ok, why := reachesAny(ep, s.Rank, s.Size); !ok && why != "" {
			s.Config.Note(fmt.Sprintf("treerun: ranks cannot read each other's memory (%s): all messages go through "+
				"slots\n", why))
		} else if ok && gain > 0 {
			s.Config.Note(fmt.Sprintf("treerun: ranks read each other's memory from %s on: "+
				"through shared memory %s take %.2g times as long\n", numbers.Bytes(from),
				numbers.Bytes(probe.LendBytes), gain))
		}
	}
	return nil
}

// compareHellos compares the hellos of all ranks, and takes over the values that plans and measurements depend on.
// refused is the error of a setting that this rank cannot plan with.
func (s *setup) compareHellos(all []hello, refused error) error {
	version := func(h hello) string { return strconv.Itoa(h.Protocol) }
	if err := Agreed(s.World, "the protocol version", all, version); err != nil {
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
		if err := Agreed(s.World, what, all, func(h hello) string { return h.Settings[i] }); err != nil {
			return err
		}
	}
	s.Config.Cores = all[0].Cores // plans depend on it
	for _, h := range all {
		s.Config.HeapBytes = max(0, min(s.Config.HeapBytes, h.HeapBytes))
	}
	machines := make([]string, len(all))
	s.places = make([]probe.Place, len(all))
	for r, h := range all {
		machines[r], s.places[r] = h.Machine, h.Place
	}
	s.Config.coreHosts = job.SharedMachines(HostsOf(s.World), machines)
	s.decision = all[0].Decision
	return nil
}

// planAndConnect makes the plans, by rank 0's decision, and opens their links. Steps that these do not depend on share
// their AllGathers with the opening: the decision, and on one host the measurement, too. An error of planning comes
// before errors that follow from it.
func (s *setup) planAndConnect(all []hello) (l transport.Layout, ep transport.Endpoint, err error) {
	connect := func(g allGather) (err error) {
		ep, err = s.Config.Connect(s.ctx, s.World, g, "collective", l)
		return err
	}
	measures := s.decision == nil && s.Config.Graph == nil && OneHost(HostsOf(s.World))
	if measures {
		// The links within a host depend on the number of ranks alone.
		m := s.Config.machine()
		l = transport.Layout{Size: s.Size, HeapBytes: s.Config.HeapBytes}
		l.Slots, l.SlotBytes = m.LocalSlots(l.Size)
	} else {
		err = s.plan(s.World.AllGather, all)
	}
	if err != nil {
		return l, nil, err
	}
	if !measures {
		l, _ = s.Plans.layout() // none for a rank without plans: connecting fails then, too, on all ranks
	}
	var failed error
	err = together(s.ctx, s.Size, s.World.AllGather, func(g allGather) error {
		if measures {
			failed = s.plan(g, all)
		}
		if failed == nil {
			failed = s.decide(g)
		}
		return nil
	}, connect)
	if failed != nil {
		err = failed
		if ep != nil {
			err = errors.Join(err, ep.Close())
		}
	}
	return l, ep, err
}

// plan makes this rank's plans for the graph.
func (s *setup) plan(g allGather, all []hello) error {
	graph, err := s.graph(g, all)
	if err != nil {
		return err
	}
	if s.Plans == nil || s.decision == nil {
		s.Plans = newPlans(graph, s.Rank, s.Config.machine(), s.Config.Planning)
	}
	s.Plans.HeapBytes = s.Config.HeapBytes // the least of all ranks
	return nil
}

// decide has the plans follow rank 0's decision.
func (s *setup) decide(g allGather) (err error) {
	if s.decision == nil {
		err = s.Plans.decideTogether(s.ctx, g, s.Plans.firstKinds())
	} else if s.Rank > 0 {
		err = s.Plans.follow(s.decision)
	}
	s.step("opening links")
	return err
}

// compare sends this rank's hello to the other ranks, and returns the hellos of all.
func (s *setup) compare() ([]hello, error) {
	refused := s.Config.usePlanning(s.World)
	h := hello{
		Protocol: protocol, Settings: s.Config.values(), Cores: s.Config.Cores, Machine: job.MachineID(s.Config.Cores),
		HeapBytes: s.Config.HeapBytes, Place: s.place(),
	}
	if refused != nil {
		h.Refused = strings.TrimPrefix(refused.Error(), ErrArgument.Error()+": ")
	}
	h.Host = s.cachedHost(s.Config.TopoCache(s.World))
	if kept := h.Host.Found; kept != nil && refused == nil && OneHost(HostsOf(s.World)) {
		s.Config.coreHosts = HostsOf(s.World) // the same on all ranks
		s.Plans = newPlans(kept.Graph(), 0, s.Config.machine(), s.Config.Planning)
		h.Decision, _ = s.Plans.decide(s.Plans.firstKinds()) // an error comes again later, and is reported then
	}
	s.step("comparing settings")
	all, err := strict.Swap(s.ctx, s.World.AllGather, s.Size, nil, h, nil)
	if err != nil {
		return nil, fmt.Errorf("comparing settings: %w", err)
	}
	return all, s.compareHellos(all, refused)
}

// graph returns the same graph on all ranks: the caller's, an earlier job's, or
// a measured one.
func (s *setup) graph(by allGather, all []hello) (*topo.Graph, error) {
	switch {
	case s.Config.Graph != nil:
		if s.Config.Graph.Ranks != s.Size {
			return nil, fmt.Errorf("%w: the graph has %d ranks, the job %d", ErrArgument, s.Config.Graph.Ranks, s.Size)
		}
		err := s.Config.Graph.Validate()
		if err == nil && s.Rank == 0 {
			s.Config.Note(s.otherHosts())
		}
		return s.Config.Graph, err
	case s.Size == 1:
		return topo.UniformGraph(1), nil
	}
	measured := s.measuring()
	g, err := s.measuredGraph(by, all)
	measured()
	if err != nil {
		return nil, fmt.Errorf("measuring the links: %w", err)
	}
	return g, nil
}

// measuredGraph returns the graph of ranks on these hosts, as it is kept or measured.
func (s *setup) measuredGraph(by allGather, all []hello) (*topo.Graph, error) {
	cache, hosts := s.Config.TopoCache(s.World), HostsOf(s.World)
	if !OneHost(hosts) {
		return s.hostsGraph(by, cache, all)
	}
	graphs, err := s.withinHosts(by, cache, hosts, all)
	if err != nil {
		return nil, err
	}
	return graphs[0], nil
}

// otherHosts returns a notice that a given graph has the ranks on other hosts than the job, which may be intended; ""
// where it has not.
func (s *setup) otherHosts() string {
	given := s.Config.Graph.ByHost()
	own := (&topo.Graph{Ranks: s.Size, Hosts: HostsOf(s.World)}).ByHost()
	if slices.EqualFunc(given, own, slices.Equal) {
		return ""
	}
	return fmt.Sprintf("treerun: the ranks of the given graph are on %d hosts, those of the job on %d, "+
		"not the same ones: plans are made for the graph\n", len(given), len(own))
}

// LostRank returns the rank that w has lost, and why, as the fault of a communicator.
func LostRank(w World) transport.Fault {
	r, err := w.Failure()
	return transport.Fault{Rank: r, Text: err.Error()}
}
