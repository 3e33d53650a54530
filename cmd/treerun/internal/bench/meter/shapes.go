package meter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
)

// shapes measures one case after the other with every shape of plan that fits.
// Every shape has a communicator of its own. All are timed from the exit of the
// barrier of one and the same communicator on, and take turns, so that what
// comes and goes on the machine meets all of them.
type shapes struct {
	o      *suite.Options
	np     int
	quick  string           // the shape of base
	base   *collective.Comm // for barriers and for bringing times together
	calls  map[string]collectiveOf[float32]
	meters map[string]*meter[float32] // by shape
	open   []io.Closer
}

// rounds is how often shapes take turns.
const rounds = 9

// Shapes compares the shapes of plan for all cases of o on the ranks of a world
// and calls tell with every point, on every rank; what stands in it for people is
// rank 0's. All ranks call it together, with the same options, which are for all
// communicators.
func Shapes(ctx context.Context, world collective.World, o *suite.Options, tell func(*suite.Point) error, opts ...collective.Option) error {
	if o.Explain > 0 {
		return explain(ctx, world, o, tell, opts...)
	}
	return tune(ctx, world, o, tell, opts...)
}

// tune is Shapes with --tune, which is for one host.
func tune(ctx context.Context, world collective.World, o *suite.Options, tell func(*suite.Point) error, opts ...collective.Option) (err error) {
	s := &shapes{o: o, np: world.Size(), calls: calls[float32](), meters: make(map[string]*meter[float32])}
	defer func() {
		for _, c := range slices.Backward(s.open) {
			err = errors.Join(err, c.Close())
		}
	}()
	cases := o.Cases(s.np)
	if err := s.openAll(ctx, world, cases, opts); err != nil {
		return err
	}
	for i := range cases {
		p, err := s.point(ctx, &cases[i])
		if err != nil {
			return fmt.Errorf("%s of %d bytes: %w", cases[i].Name, cases[i].Bytes, err)
		}
		if err := tell(p); err != nil {
			return err
		}
	}
	return nil
}

// openAll makes the communicators of all shapes that a case needs.
func (s *shapes) openAll(ctx context.Context, world collective.World, cases []suite.Case, opts []collective.Option) error {
	n := 1
	for _, k := range cases {
		n = max(n, k.Stride(s.np))
	}
	send, recv := make([]float32, n), make([]float32, n)
	most := max(s.o.Iterations, rounds)
	times, slowest, origin := make([]float64, most), make([]float64, most), time.Now()
	add := func(name string) error {
		if s.meters[name] != nil {
			return nil
		}
		c, err := collective.New(ctx, world, append(slices.Clone(opts), collective.WithPlan(name))...)
		if err != nil {
			return fmt.Errorf("plan %s: %w", name, err)
		}
		s.open = append(s.open, c)
		s.meters[name] = &meter[float32]{c: c, o: s.o, send: send, recv: recv, times: times, slowest: slowest, calls: s.calls, origin: origin}
		return nil
	}
	s.quick = collective.PlanNames(plan.Barrier, s.np)[0]
	if err := add(s.quick); err != nil {
		return err
	}
	s.base = s.meters[s.quick].c
	for _, k := range cases {
		names := collective.PlanNames(s.calls[k.Name].kind, s.np)
		if len(names) == 1 {
			continue // every communicator has that
		}
		for _, name := range names {
			if err := add(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// metersOf returns what measures each of the shapes of a collective.
func (s *shapes) metersOf(names []string) []*meter[float32] {
	if len(names) == 1 {
		return []*meter[float32]{s.meters[s.quick]}
	}
	var list []*meter[float32]
	for _, name := range names {
		list = append(list, s.meters[name])
	}
	return list
}

// point measures a case with all shapes. It is the same on all ranks.
func (s *shapes) point(ctx context.Context, k *suite.Case) (*suite.Point, error) {
	names := collective.PlanNames(s.calls[k.Name].kind, s.np)
	meters := s.metersOf(names)
	runs, counts := make([]*running[float32], len(names)), make([]int, len(names))
	var err error
	for i, name := range names {
		m := meters[i]
		if runs[i], err = m.prepare(k); err != nil {
			return nil, err
		}
		if err := m.rightResult(ctx, runs[i], k); err != nil {
			return nil, fmt.Errorf("plan %s: %w", name, err)
		}
		one, err := s.turn(ctx, m, runs[i], max(1, min(s.o.Warmup, 3)))
		if err != nil {
			return nil, err
		}
		counts[i] = fit(max(1, s.o.Iterations/rounds), 1, s.o.MaxSeconds/float64(rounds*len(names)), one)
	}
	medians := make([][]float64, len(names))
	for range rounds {
		for i, m := range meters {
			seconds, err := s.turn(ctx, m, runs[i], counts[i])
			if err != nil {
				return nil, err
			}
			medians[i] = append(medians[i], seconds)
		}
	}
	p := &suite.Point{Collective: k.Name, NP: s.np, Bytes: k.Bytes}
	for i, name := range names {
		p.Candidates = append(p.Candidates, suite.Candidate{Plan: name, Us: us(median(medians[i]))})
	}
	return p, nil
}

// rightResult makes one call and compares every element: a quick plan with a
// wrong result is not to be chosen.
func (m *meter[T]) rightResult(ctx context.Context, r *running[T], k *suite.Case) error {
	if k.Empty {
		return nil
	}
	row := &suite.Row{}
	if err := m.check(ctx, k, r, &oracle[T]{size: m.c.Size(), op: k.Op}, row); err != nil {
		return err
	}
	if *row.Wrong > 0 {
		return fmt.Errorf("%d elements of the result are wrong", *row.Wrong)
	}
	return nil
}

// turn makes n calls with a shape, each from this rank's own exit of a barrier
// on, and returns the median of what they took on their slowest ranks.
func (s *shapes) turn(ctx context.Context, m *meter[float32], r *running[float32], n int) (float64, error) {
	times, slowest := m.times[:n], m.slowest[:n]
	for i := range times {
		if err := collective.Barrier(ctx, s.base); err != nil {
			return 0, err
		}
		begin := m.now()
		if err := r.once(ctx); err != nil {
			return 0, err
		}
		times[i] = m.now() - begin
	}
	err := collective.AllReduce(ctx, s.base, times, slowest, collective.Max)
	return median(slowest), err
}

// median sorts v, which is not empty.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	return (v[n/2] + v[(n-1)/2]) / 2
}
