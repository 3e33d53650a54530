package collective

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/treerun/treerun/collective/internal/exec"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/probe"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// New makes a communicator of all ranks of w. All ranks call it together, with
// the same options. It compares the ranks' settings, measures the links
// between them (or takes the measurement of an earlier job on this host), makes
// the plans, compares them, and opens the links. A difference between ranks is
// an ErrDisagree on all of them, with the ranks and the values.
//
// The caller closes the communicator, before the World. Several communicators
// of one World may exist at once.
func New(ctx context.Context, w World, opts ...Option) (*Comm, error) {
	cfg := defaults()
	if n, err := strconv.Atoi(w.Setting("cores")); err == nil && n > 0 {
		cfg.cores = n // of all ranks; this one may be bound to its share
	}
	for _, o := range opts {
		o(&cfg)
	}
	within, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-w.Failed():
			cancel()
		case <-within.Done():
		}
	})
	s := setup{ctx: within, w: w, cfg: &cfg}
	c, err := s.comm()
	cancel()
	watch.Wait()
	if err == nil {
		return c, nil
	}
	if r, lost := w.Failure(); lost != nil {
		return nil, &RankError{Rank: r, Op: "New", Err: &faultError{kind: ErrRankLost, text: lost.Error()}}
	}
	if fault := (*probe.FaultError)(nil); errors.As(err, &fault) {
		return nil, &RankError{Rank: fault.Rank, Op: "New", Err: errorOf(fault.Fault)}
	}
	if errors.Is(err, ErrDisagree) || errors.Is(err, ErrArgument) {
		return nil, fmt.Errorf("collective: New on rank %d: %w", w.Rank(), err)
	}
	return nil, &RankError{Rank: -1, Op: fmt.Sprintf("New on rank %d", w.Rank()), Err: err}
}

// setup is a New under way.
type setup struct {
	ctx context.Context
	w   World
	cfg *config
}

func (s *setup) comm() (*Comm, error) {
	if err := s.oneHost(); err != nil {
		return nil, err
	}
	graph, err := s.graph()
	if err != nil {
		return nil, err
	}
	plans, err := s.plan(graph)
	if err != nil {
		return nil, err
	}
	layout := plans.layout()
	if err := s.compare(graph, plans, &layout); err != nil {
		return nil, err
	}
	ep, err := s.cfg.connect(s.ctx, s.w, "collective", layout)
	if err != nil {
		return nil, err
	}
	c := &Comm{
		rank: s.w.Rank(), size: s.w.Size(), world: s.w,
		graph: graph, ep: ep, plans: plans,
		waiter:  waiterFor(s.w.Size(), s.cfg.cores),
		connect: s.cfg.connect,
		closed:  make(chan struct{}),
	}
	c.links, err = exec.NewLinks(ep, c.rank, &layout, plans.pointLane())
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	plans.links = c.links
	if s.cfg.stall > 0 {
		c.waiter.Stalled, c.waiter.StallEvery = c.reportStall, s.cfg.stall
	}
	if c.rank == 0 && s.w.Setting("verbose") != "" {
		fmt.Fprint(os.Stderr, plans.explain())
	}
	c.watch.Go(func() { abortOnFailure(s.w, ep, c.closed) })
	if c.size > 1 {
		c.watch.Go(c.checkCalls)
	}
	return c, nil
}

// oneHost refuses worlds that this version has no transport for.
func (s *setup) oneHost() error {
	for r := range s.w.Size() {
		if h := s.w.HostOf(r); h != s.w.HostOf(0) {
			return fmt.Errorf("rank 0 and rank %d are on different hosts, and the only transport is shared memory; start all ranks on one host", r)
		}
	}
	return nil
}

// graph returns the same graph on all ranks: the caller's, an earlier job's, or
// a measured one.
func (s *setup) graph() (*topo.Graph, error) {
	cache := s.cfg.topoCache(s.w)
	size := s.w.Size()
	h := hello{Protocol: protocol, Settings: s.cfg.digest(), Cores: s.cfg.cores}
	file := ""
	if s.w.Rank() == 0 && s.cfg.graph == nil && size > 1 && cache != nil {
		file = cache.Path(size, s.cfg.cores)
		// A broken or foreign file is measured over.
		if g, err := cache.Load(file, size); err == nil && g != nil {
			if h.Graph, err = g.AppendJSON(nil); err != nil {
				return nil, err
			}
		}
	}
	s.readTuning(&h)
	all, err := exchange(s.ctx, s.w, h)
	if err != nil {
		return nil, fmt.Errorf("comparing settings: %w", err)
	}
	if err := agreed("the protocol version", all, func(h hello) string { return strconv.Itoa(h.Protocol) }); err != nil {
		return nil, err
	}
	if err := agreed("the settings", all, func(h hello) string { return h.Settings }); err != nil {
		return nil, err
	}
	s.cfg.cores = all[0].Cores // plans depend on it
	if err := errors.Join(s.cfg.checkPlan(size), s.takeTuning(&all[0])); err != nil {
		return nil, err
	}
	switch {
	case s.cfg.graph != nil:
		if s.cfg.graph.Ranks != size {
			return nil, fmt.Errorf("%w: the graph has %d ranks, the job %d", ErrArgument, s.cfg.graph.Ranks, size)
		}
		return s.cfg.graph, s.cfg.graph.Validate()
	case size == 1:
		return topo.UniformGraph(1), nil
	case len(all[0].Graph) > 0:
		g, err := topo.ParseGraph(all[0].Graph)
		if err != nil {
			return nil, fmt.Errorf("graph from rank 0: %w", err)
		}
		return g, nil
	}
	g, err := s.measure()
	if err != nil {
		return nil, fmt.Errorf("measuring the links: %w", err)
	}
	if file != "" {
		// The next job measures again when the graph could not be kept.
		_ = cache.Store(file, g)
	}
	return g, nil
}

// measure probes all links and gives every rank the same graph.
func (s *setup) measure() (*topo.Graph, error) {
	size := s.w.Size()
	ep, err := s.cfg.connect(s.ctx, s.w, "probe", probe.Layout(size))
	if err != nil {
		return nil, err
	}
	defer ep.Close()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		abortOnFailure(s.w, ep, stop)
	}()
	pairs, err := probe.Measure(s.ctx, ep, s.w.Rank(), size, s.cfg.cores, shm.PinThread)
	close(stop)
	<-stopped
	if err != nil {
		return nil, err
	}
	all, err := exchange(s.ctx, s.w, pairs)
	if err != nil {
		return nil, err
	}
	pairs = pairs[:0:0]
	for _, p := range all {
		pairs = append(pairs, p...)
	}
	g := probe.Graph(size, pairs)
	return g, g.Validate()
}

// compare checks that all ranks came to the same graph, plans and links.
func (s *setup) compare(g *topo.Graph, p *planner, layout *transport.Layout) error {
	mine := outcome{Graph: g.Digest(), Plans: p.digest(), Layout: layoutDigest(layout)}
	all, err := exchange(s.ctx, s.w, mine)
	if err != nil {
		return fmt.Errorf("comparing plans: %w", err)
	}
	return errors.Join(
		agreed("the graph", all, func(o outcome) string { return o.Graph }),
		agreed("the plans", all, func(o outcome) string { return o.Plans }),
		agreed("the links", all, func(o outcome) string { return o.Layout }),
	)
}

// abortOnFailure turns the news that a rank has failed into the fault of ep,
// until stop is closed.
func abortOnFailure(w World, ep transport.Endpoint, stop <-chan struct{}) {
	select {
	case <-stop:
	case <-w.Failed():
		r, err := w.Failure()
		ep.Abort(transport.Fault{Rank: r, Text: exec.FaultLost + err.Error()})
	}
}
