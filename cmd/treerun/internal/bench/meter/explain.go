package meter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/numbers"
)

// explainer measures every shape of plan for a case as a row of bench is
// measured: on a communicator that is the only one then, with its own barrier.
// Links between hosts that have not been used for a while, and those of other
// communicators beside them, take the processors' time: calls that alternate
// between communicators take several times as long as calls in a row.
type explainer struct {
	o     *Options
	np    int
	open  func(...collective.Option) (*collective.Comm, error)
	opts  []collective.Option
	asked collective.Planning // of the job
	calls map[string]collectiveOf[float32]

	send, recv     []float32
	times, slowest []float64
	origin         time.Time
}

// explainRounds is how often shapes take turns, each time with a communicator
// made anew: what comes and goes on the machine meets several of them.
const explainRounds = 3

// Explain compares the shapes of plan for all cases of o on the ranks of a world
// and calls tell with every point, on every rank; what stands in it for people is
// rank 0's. All ranks call it together, with the same options, which are for all
// communicators.
func Explain(ctx context.Context, world collective.World, o *Options, tell func(*Point) error,
	opts ...collective.Option) error {
	e := &explainer{
		o: o, np: world.Size(), opts: opts, calls: calls[float32](), origin: time.Now(),
		open: func(opts ...collective.Option) (*collective.Comm, error) { return collective.New(ctx, world, opts...) },
	}
	if text := world.Setting("algorithm"); text != "" {
		if err := e.asked.Set("algorithm", text); err != nil {
			return err
		}
	}
	return e.all(ctx, tell)
}

// by plans by an algorithm, with the options of the job as far as it has them.
func (e *explainer) by(algorithm string) collective.Option {
	o := e.asked
	if o.Algorithm = algorithm; o.Validate() != nil {
		o = collective.Planning{}
	}
	return collective.WithAlgorithm(algorithm, o)
}

// all measures all cases.
func (e *explainer) all(ctx context.Context, tell func(*Point) error) error {
	cases := e.o.Cases(e.np)
	points, err := e.consult(cases)
	if err != nil {
		return err
	}
	n := 1
	for _, k := range cases {
		n = max(n, k.Stride(e.np))
	}
	e.send, e.recv = make([]float32, n), make([]float32, n)
	e.times, e.slowest = make([]float64, max(e.o.Iterations, 1)), make([]float64, max(e.o.Iterations, 1))
	for i, p := range points {
		if err := e.measure(ctx, &cases[i], p); err != nil {
			return fmt.Errorf("%s of %d bytes: %w", cases[i].Name, cases[i].Bytes, err)
		}
		if err := tell(p); err != nil {
			return err
		}
	}
	return nil
}

// consult asks a communicator as a job has it what there is to choose, and what
// it would take. Those that are measured then have the graph of this one.
func (e *explainer) consult(cases []Case) (points []*Point, err error) {
	c, err := e.open(e.opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	e.opts = append(slices.Clone(e.opts), collective.WithGraph(c.Graph()))
	for _, k := range cases {
		kind := e.calls[k.Name].kind
		p := &Point{Collective: k.Name, NP: e.np, Bytes: k.Bytes}
		for _, name := range c.Algorithms(kind) {
			p.Candidates = append(p.Candidates, Candidate{Plan: name})
		}
		if c.Rank() == 0 { // it is rank 0 that tells
			choice, err := c.Choice(kind, k.Root, int(k.Bytes))
			if err != nil {
				return nil, err
			}
			p.Chosen, p.By, p.Digest = choice.Name, choice.By, choice.Digest
			for line := range strings.Lines(c.Explain()) {
				if strings.HasPrefix(line, "AllReduce: links allow") {
					p.Links = strings.TrimSpace(line)
				}
			}
		}
		points = append(points, p)
	}
	return points, nil
}

// measure fills in the times of a point. They are the same on all ranks.
func (e *explainer) measure(ctx context.Context, k *Case, p *Point) error {
	all := make([][]float64, len(p.Candidates))
	for round := range explainRounds {
		for i := range p.Candidates {
			c := &p.Candidates[i]
			opts := e.opts
			if len(p.Candidates) > 1 {
				opts = append(slices.Clone(opts), e.by(c.Plan))
			}
			share := e.o.MaxSeconds / float64(explainRounds*len(p.Candidates))
			seconds, err := e.turn(ctx, k, c, opts, round == 0, share)
			if err != nil {
				return fmt.Errorf("plan %s: %w", c.Plan, err)
			}
			all[i] = append(all[i], seconds...)
		}
	}
	for i := range p.Candidates {
		p.Candidates[i].Us = us(numbers.Median(all[i]))
	}
	return nil
}

// turn opens a communicator of one shape and returns what calls took there on
// their slowest ranks, for so many seconds. The first turn compares a result, and
// asks for the price.
func (e *explainer) turn(ctx context.Context, k *Case, candidate *Candidate, opts []collective.Option,
	first bool, seconds float64) (took []float64, err error) {
	c, err := e.open(opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	m := &meter[float32]{c: c, o: e.o, send: e.send, recv: e.recv, times: e.times, slowest: e.slowest, calls: e.calls,
		origin: e.origin}
	run, err := m.prepare(k)
	if err != nil {
		return nil, err
	}
	if first {
		if err := m.rightResult(ctx, run, k); err != nil {
			return nil, err
		}
		candidate.PredictedUs = predicted(c, e.calls[k.Name].kind, k)
	}
	one, err := m.warmUp(ctx, run, seconds/2)
	if err != nil {
		return nil, err
	}
	n := fit(max(1, e.o.Iterations/explainRounds), 1, seconds, one)
	if err := m.oneByOne(ctx, run, n); err != nil {
		return nil, err
	}
	return slices.Clone(m.slowest[:n]), nil
}

// predicted returns the price of the plan that a communicator takes, nil where it
// is not known. Rank 0 tells.
func predicted(c *collective.Comm, kind plan.Kind, k *Case) *float64 {
	if c.Rank() != 0 {
		return nil
	}
	choice, err := c.Choice(kind, k.Root, int(k.Bytes))
	if err != nil {
		return nil
	}
	return priceOf(choice.PredictedUs)
}

// priceOf rounds a price to a tenth of a nanosecond; nil where it is not known.
func priceOf(us float64) *float64 {
	if math.IsNaN(us) {
		return nil
	}
	price := math.Round(us*1e4) / 1e4
	return &price
}

// rightResult makes one call and compares every element: a quick plan with a
// wrong result is not to be chosen.
func (m *meter[T]) rightResult(ctx context.Context, r *running[T], k *Case) error {
	if k.Empty {
		return nil
	}
	row := &Row{}
	if err := m.check(ctx, k, r, &oracle[T]{size: m.c.Size(), op: k.Op}, row); err != nil {
		return err
	}
	if *row.Wrong > 0 {
		return fmt.Errorf("%d elements of the result are wrong", *row.Wrong)
	}
	return nil
}
