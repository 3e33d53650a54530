//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
)

// explainer measures every shape of plan for a case in the way of a row of bench: on a communicator that is the only
// one then, with its own barrier. Links between hosts that have not been used for a while, and those of other
// communicators at the same time, take the processors' time: calls that alternate between communicators take several
// times as long as calls in a row.
type explainer struct {
	o        *Options
	np       int
	open     func(...collective.Option) (*collective.Comm, error)
	opts     []collective.Option
	planning collective.Planning // of the job
}

// explainRounds is the number of rounds in which shapes take turns, each time with a new communicator: changes of the
// machine over time affect several of them.
const explainRounds = 3

// explain compares the shapes of plan for all cases of o on the ranks of a world and calls emit with every row, on
// every rank; the texts in it are rank 0's. All ranks call it together, with the same options, which are for all
// communicators.
func explain(ctx context.Context, world collective.World, o *Options, emit func(*Row) error,
	opts ...collective.Option) error {
	e := &explainer{
		o: o, np: world.Size(), opts: opts,
		open: func(opts ...collective.Option) (*collective.Comm, error) { return collective.New(ctx, world, opts...) },
	}
	if text := world.Setting("algorithm"); text != "" {
		if err := e.planning.Set("algorithm", text); err != nil {
			return err
		}
	}
	return e.measureAll(ctx, emit)
}

// withAlgorithm returns the option of planning by an algorithm, with those options of the job that it has.
func (e *explainer) withAlgorithm(algorithm string) collective.Option {
	o := e.planning
	if o.Algorithm = algorithm; o.Validate() != nil {
		o = collective.Planning{}
	}
	return collective.WithAlgorithm(algorithm, o)
}

// measureAll measures all cases.
func (e *explainer) measureAll(ctx context.Context, emit func(*Row) error) error {
	cases := e.o.cases(e.np)
	rows, err := e.listCandidates(cases)
	if err != nil {
		return err
	}
	for i, r := range rows {
		if err := e.measureCase(ctx, cases[i:i+1], r.Explained.Candidates); err != nil {
			return err
		}
		if err := emit(r); err != nil {
			return err
		}
	}
	return nil
}

// listCandidates opens a communicator with the job's options and lists its choices and the prediction for each. The
// communicators that are measured then have the graph of this one.
func (e *explainer) listCandidates(cases []Case) (rows []*Row, err error) {
	c, err := e.open(e.opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	e.opts = append(slices.Clone(e.opts), collective.WithGraph(c.Graph()))
	for _, k := range cases {
		x := &Explained{}
		r := newRow(&k, e.np, 0)
		r.Explained = x
		for _, name := range c.Algorithms(k.Kind) {
			x.Candidates = append(x.Candidates, Candidate{Plan: name})
		}
		if c.Rank() == 0 { // only rank 0 reports
			choice, err := c.Choice(k.Kind, k.Root, int(k.Bytes))
			if err != nil {
				return nil, err
			}
			r.Plan, r.Algorithm, r.Digest, x.By = choice.Name, choice.Name, choice.Digest, choice.By
			if x.Links, err = linkLimit(c.Graph(), &k); err != nil {
				return nil, err
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// linkLimit describes the limit of the links for any plan of a case.
func linkLimit(g *topo.Graph, k *Case) (string, error) {
	p, err := planner.New(g, planner.Machine{}, planner.Options{})
	if err != nil {
		return "", err
	}
	b, err := p.Site.Certify(k.Kind, k.Root)
	if b.Rate > 0 {
		return fmt.Sprintf("links allow %.4g GB/s: %s", b.Rate, b.Words), err
	}
	return "the limit of the links is " + b.Words, err
}

// measureCase fills in the times of all algorithms of a case. They are the same on all ranks. The first round compares
// results, as a quick plan with a wrong one must not be chosen, and has the prices.
func (e *explainer) measureCase(ctx context.Context, k []Case, list []Candidate) error {
	times := make([][]float64, len(list))
	o := *e.o
	o.Iterations = max(1, o.Iterations/explainRounds)
	o.MaxSeconds /= float64(explainRounds * len(list))
	for round := range explainRounds {
		o.Check = round == 0
		for i := range list {
			c := &list[i]
			opts := e.opts
			if len(list) > 1 {
				opts = append(slices.Clone(opts), e.withAlgorithm(c.Plan))
			}
			row, err := e.measureOnce(ctx, k, &o, opts)
			if err != nil {
				return fmt.Errorf("plan %s: %w", c.Plan, err)
			}
			if o.Check {
				c.PredictedUs = row.PredictedUs
			}
			times[i] = append(times[i], row.TimeUs)
		}
	}
	for i := range list {
		list[i].Us = numbers.Median(times[i])
	}
	return nil
}

// measureOnce measures a case on a communicator of its own.
func (e *explainer) measureOnce(ctx context.Context, k []Case, o *Options,
	opts []collective.Option) (row *Row, err error) {
	c, err := e.open(opts...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	err = measureRows[float32](ctx, &session{c: c, o: o}, k, func(r *Row) error { row = r; return nil })
	if err == nil && row.Wrong != nil && *row.Wrong > 0 {
		err = fmt.Errorf("the result has %s", numbers.Count(int(*row.Wrong), "wrong element"))
	}
	return row, err
}

// priceOf rounds a price to a tenth of a nanosecond; it returns nil for an unknown one.
func priceOf(us float64) *float64 {
	if math.IsNaN(us) {
		return nil
	}
	price := math.Round(us*1e4) / 1e4
	return &price
}

// Defaults for comparing shapes.
const (
	explainIterations = 200
	explainSeconds    = 1 // of a size, with all shapes
)

// setExplain sets the defaults of --explain, and refuses those of bench's own
// flags that mean nothing there.
func (o *Options) setExplain(own []string) error {
	if o.Explain == 0 {
		return nil
	}
	known := []string{"explain", "np", "collective", "iters", "warmup", "max-seconds", "no-topo-cache", "verbose"}
	var excess []string
	o.Flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) && slices.Contains(own, f.Name) {
			excess = append(excess, "--"+f.Name)
		}
	})
	switch {
	case len(excess) > 0:
		return usage("--explain cannot be combined with %s", strings.Join(excess, ", "))
	case o.Explain%4 != 0:
		return usage("--explain %s: want whole elements, which are float32 here, of 4 bytes each", &o.Explain)
	}
	if !o.Flags.Changed("iters") {
		o.Iterations = explainIterations
	}
	if !o.Flags.Changed("max-seconds") {
		o.MaxSeconds = explainSeconds
	}
	o.Begin, o.End = o.Explain, o.Explain
	o.Passes = []bool{false}
	for _, name := range o.Collectives {
		if c := find(name); c.OneByOne {
			return usage("--explain: %s has no plan", name)
		}
	}
	return nil
}
