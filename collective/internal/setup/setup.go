package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treerun/treerun/collective/internal/engine"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
)

// Setup holds the settings, plans and links that the ranks of a World have agreed on and opened for a communicator.
type Setup struct {
	Rank, Size int
	Name       string
	World      World
	Config     *Config
	Between    *Between // nil on one host
	Plans      *Plans
	HeapBytes  int // per rank, the same on all
	Endpoint   transport.Endpoint
	Engine     *engine.Engine
	Waiter     engine.Waiter // how this rank waits
	lending    engine.Lending
	coreHosts  []int // by rank: those with the same number share cores; nil: those of a host
	latest     latest

	spares  *spares // of its Parts
	home    *spares // of the communicator that it is a Part of; nil: none
	spare   spare   // which Retire puts there
	retired atomic.Bool
}

// causeWait is the time that a New that has failed waits for the World to report a lost rank as the cause: once before
// it closes links, and once before it returns.
const causeWait = 400 * time.Millisecond

// New sets up a communicator of all ranks of w: see New of package collective.
func New(ctx context.Context, w World, opts ...Option) (*Setup, error) {
	cfg, refused := newConfig(w, opts)
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
	defer waiting.Record().Phase(record.Make, name, "")()
	s := &setup{ctx: within, world: w, rank: w.Rank(), size: w.Size(), hosts: HostsOf(w), config: cfg,
		cache: cfg.TopoCache(w), wait: waiting, memory: recall(w)}
	made, err := s.run(name, refused)
	cause := s.waitedFor(ctx, err)
	if err == nil {
		waiting.Clear()
	} else {
		waiting.GiveUp()
		waiting.Close()
	}
	cancel()
	watch.Wait()
	if err != nil {
		return nil, s.failure(ctx, err, cause)
	}
	return made, nil
}

// failure is the error of a New that has failed with err, because of the rank that cause names, if any.
func (s *setup) failure(ctx context.Context, err error, cause *RankError) error {
	w := s.world
	if !refusal(err) && cause == nil {
		waitLost(ctx, w)
	}
	if _, lost := w.Failure(); lost != nil {
		err = LostRank(w)
	}
	fault := transport.Fault{}
	switch {
	case errors.As(err, &fault):
		return InEpoch(w, &RankError{Rank: fault.Rank, Op: "New", Err: ErrorOf(fault)})
	case refusal(err):
		return fmt.Errorf("collective: %s: %w", callOf(w), err)
	case cause != nil:
		return InEpoch(w, cause)
	}
	return &RankError{Rank: -1, Op: callOf(w), Err: err}
}

// refusal reports whether err, of a New, is one of its settings.
func refusal(err error) bool { return errors.Is(err, ErrDisagree) || errors.Is(err, ErrArgument) }

// waitLost waits for the World to report a lost rank, which it may learn of a moment later than this rank.
func waitLost(ctx context.Context, w World) {
	select {
	case <-w.Failed():
	case <-ctx.Done():
	case <-time.After(causeWait):
	}
}

// closeFailed closes an Endpoint of a New that has failed with err. Other ranks, whose New may be done, get the cause
// before they see that this rank has closed.
func closeFailed(ctx context.Context, w World, ep transport.Endpoint, err error) error {
	if all := (*agree.Failed)(nil); !errors.As(err, &all) && !refusal(err) { // else all ranks have failed alike
		waitLost(ctx, w)
		if _, lost := w.Failure(); lost != nil {
			ep.Abort(LostRank(w))
		} else {
			ep.Abort(transport.CallFault(err, w.Rank(), callOf(w)))
		}
	}
	return errors.Join(err, ep.Close())
}

// waitedFor returns the error of a New that has failed with err because it waited for a rank, nil where that was not
// the cause.
func (s *setup) waitedFor(ctx context.Context, err error) *RankError {
	op := callOf(s.world)
	var known interface {
		error
		AtFault() int
	}
	switch {
	case err == nil:
	case errors.As(err, &known) && known.AtFault() >= 0: // the job's number
		text := known.Error()
		if why := errors.Unwrap(known); why != nil { // without the steps that led to it
			text = fmt.Sprintf("rank %d %v", known.AtFault(), why)
		}
		return &RankError{Rank: s.wait.Scope.Index(known.AtFault()), Op: op,
			Err: &faultError{text + " (hint: all ranks make this call)", []error{err}}}
	case s.wait.Stalled() != nil:
		stalled := s.wait.Stalled()
		return &RankError{Rank: s.wait.Scope.Index(stalled.Rank), Op: op, Err: stalled}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		cause := s.wait.Why(context.WithoutCancel(ctx))
		return &RankError{Rank: s.wait.Scope.Index(cause.Rank), Op: op, Err: fmt.Errorf("%w; it waited: %s", err, cause.Text)}
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
	recorded := s.wait.Record().Phase(record.Measure, s.wait.Scope.Name, "")
	return func() {
		recorded()
		s.wait.Clear()
		restore()
	}
}

// setup is a New under way: what this rank knows before the first exchange. Each step gets what the steps before it
// have found as arguments, and returns what it finds.
type setup struct {
	ctx        context.Context
	world      World
	rank, size int
	hosts      []int // by rank
	config     *Config
	cache      *probe.Cache // nil: none
	memory     *memory      // of an earlier epoch; nil: none
	wait       *waits.Wait  // publishes the cause for which the New, and later a call, waits
}

// run makes the communicator of that name. refused is the error of a setting that this rank cannot plan with.
func (s *setup) run(name string, refused error) (*Setup, error) {
	h, early := s.hello(refused)
	a, err := s.agree(h, refused)
	if err != nil {
		return nil, err
	}
	p, l, err := s.planAndConnect(a, early)
	if err != nil {
		return nil, err
	}
	gains, err := s.lendGains(l.ep, p.plans.Messages, a)
	if err != nil {
		return nil, closeFailed(s.ctx, s.world, l.ep, err)
	}
	learn(s.world, s.hosts, a.known, p.fresh, gains)
	if gains == nil {
		gains = new(probe.Gains)
	}
	oversubscribed := slices.Max(RanksOnCores(a.coreHosts, s.hosts)) > a.cores
	lending := engine.Lending{From: lendFrom(gains.Few, !OneHost(s.hosts)), Gain: gains.Few,
		SlotsAlone: gains.Many > 0 && gains.Many < 1}
	made := s.made(name, p, l, oversubscribed, *gains, lending)
	made.coreHosts = a.coreHosts
	return made, nil
}

// made returns the Setup of a communicator of that name, whose links are open. The gains are the measured reason for
// lending, if any.
func (s *setup) made(name string, p planned, l links, oversubscribed bool, gains probe.Gains,
	lending engine.Lending) *Setup {
	waiter := waiterFor(s.hosts, s.rank, s.config.Cores, ownCores(s.world))
	if bell, is := l.ep.Bell().(interface{ Crowded() bool }); is {
		waiter.Crowded = bell.Crowded
	}
	waiter.Watch, waiter.Progress = s.wait, s.wait.Progress()
	e := engine.New(l.ep, s.rank, &l.layout, p.plans.Messages, oversubscribed, lending)
	if s.rank == 0 && s.world.Setting("verbose") != "" {
		s.explain(p, l.ep, gains, lending.From)
	}
	return &Setup{Rank: s.rank, Size: s.size, Name: name, World: s.world, Config: s.config, Between: p.between,
		Plans: p.plans, HeapBytes: l.layout.HeapBytes, Endpoint: l.ep, Engine: e, Waiter: waiter, lending: lending,
		spares: &spares{}}
}

// explain writes what has been made, for --verbose.
func (s *setup) explain(p planned, ep transport.Endpoint, gains probe.Gains, lendFrom int64) {
	if p.between != nil {
		s.config.Note(p.between.Text(time.Now().Unix()))
	}
	s.config.Note(p.plans.Explain())
	if ok, why := reachesAny(ep, s.rank, s.size); !ok && why != "" {
		s.config.Note(fmt.Sprintf("treerun: ranks cannot read each other's memory (%s): all messages go "+
			"through slots\n", why))
	} else if ok && gains.Few > 0 {
		s.config.Note(fmt.Sprintf("treerun: ranks read each other's memory from %s on: "+
			"through shared memory %s take %.2g times as long, %s to a waiting rank %.2g times\n",
			numbers.Bytes(lendFrom), numbers.Bytes(probe.LendBytes), gains.Few, numbers.Bytes(probe.LendMany), gains.Many))
	}
}

// planned has the plans of a communicator, and how their graph is known.
type planned struct {
	plans   *Plans
	between *Between   // nil on one host
	fresh   *knowledge // what was measured for them; nil: nothing
}

// links are the links of a communicator.
type links struct {
	layout transport.Layout
	ep     transport.Endpoint
}

// planAndConnect makes the plans, by rank 0's decision, and opens their links. Steps that these do not depend on share
// their AllGathers with the opening: the decision, and on one host the measurement, too. An error of planning comes
// before errors that follow from it.
func (s *setup) planAndConnect(a agreement, early *Plans) (planned, links, error) {
	var p planned
	l := links{layout: transport.Layout{Size: s.size, HeapBytes: a.heapBytes}}
	measures := a.decision == nil && s.config.Graph == nil && OneHost(s.hosts) && !a.knows()
	if measures {
		// The links within a host depend on the number of ranks alone.
		m := s.machine(a.cores, a.coreHosts)
		l.layout.Slots, l.layout.SlotBytes = m.LocalSlots(s.size)
	} else {
		var err error
		if p, err = s.plan(s.world.AllGather, a, early); err != nil {
			return p, l, err
		}
		if p.plans.err != nil { // connecting fails then, too, on all ranks
			l.layout = transport.Layout{}
		} else {
			l.layout.Slots, l.layout.SlotBytes = p.plans.Planner.Site.Slots()
		}
	}
	decided, opened := together(s.ctx, s.size, s.world.AllGather, func(g allGather) (_ planned, err error) {
		made := p
		if measures {
			made, err = s.plan(g, a, early)
		}
		if err == nil {
			err = s.decide(g, made.plans, a.decision)
		}
		return made, err
	}, func(g allGather) (transport.Endpoint, error) {
		return s.config.Connect(s.ctx, s.world, g, "collective", l.layout)
	})
	l.ep = opened.value
	if decided.err == nil {
		return decided.value, l, opened.err
	}
	if l.ep != nil {
		decided.err = closeFailed(s.ctx, s.world, l.ep, decided.err)
	}
	return decided.value, l, decided.err
}

// plan makes this rank's plans for the graph. early are those by which this rank has decided, if it has.
func (s *setup) plan(g allGather, a agreement, early *Plans) (p planned, err error) {
	graph, between, fresh, err := s.graph(g, a)
	if err != nil {
		return p, err
	}
	if early == nil || a.decision == nil {
		early = newPlans(graph, s.rank, s.machine(a.cores, a.coreHosts), s.config.Planning)
		early.earlier = a.known.choices(s.config)
	}
	return planned{early, between, fresh}, nil
}

// decide makes p follow rank 0's decision: d, or if nil the one that all ranks now receive.
func (s *setup) decide(g allGather, p *Plans, d *planner.Decision) (err error) {
	defer s.wait.Record().Phase(record.Plan, s.wait.Scope.Name, "")()
	if d == nil {
		err = p.decideTogether(s.ctx, g, p.firstKinds())
	} else if s.rank > 0 {
		err = p.follow(d)
	}
	s.step("opening links")
	return err
}

// LostRank returns the rank that w has lost, and why, as the fault of a communicator.
func LostRank(w World) transport.Fault {
	r, err := w.Failure()
	return transport.Fault{Rank: r, Text: err.Error()}
}
