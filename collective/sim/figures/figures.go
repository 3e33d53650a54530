// Package figures computes what the design documents of treerun's forerunners
// show in their plots, by pricing plans with package sim: MXNet's comparison of
// trees, rings and parameter server on a p3.16xlarge, its crossover from one
// tree to several, and NCCL's trees against its rings up to 24,576 GPUs; and what
// treerun's own plans for 1,024 hosts come to; and OmniReduce's results, by running
// the sparse protocols with package sparsesim.
//
// It returns series of numbers and draws nothing. The shapes are the point, not
// the microseconds: every Figure says which constants it stands on. The package
// is pure, as sim is; commands and documentation import it.
package figures

import (
	"cmp"
	"math"
	"slices"
)

// Figure is the data of one plot.
type Figure struct {
	Name      string // a file name without extension: "push-pull-50"
	Title     string
	XLabel    string // with its unit
	XUnit     string // what X counts: "floats"
	YLabel    string // with its unit
	Series    []Series
	Crossings []Crossing
	Claims    []Claim  // what the original says, judged by the curves
	Notes     []string // where the constants come from and what is different from the original; sentences
}

// Series is one curve. Both axes are meant to be logarithmic.
type Series struct {
	Name   string
	Points []Point // by rising X
}

// Point is one value of a curve.
type Point struct{ X, Y float64 }

// Crossing says from where on one curve lies below another that it did not
// before, by interpolation between points.
type Crossing struct {
	Below, Above string // names of series
	X            float64
}

// crossings returns where the order of any two of the curves, which have the
// same X, changes: by rising X.
func crossings(series []Series) []Crossing {
	var all []Crossing
	for i, a := range series {
		for _, b := range series[:i] {
			all = append(all, crossing(a, b)...)
		}
	}
	slices.SortStableFunc(all, func(a, b Crossing) int { return cmp.Compare(a.X, b.X) })
	return all
}

func crossing(a, b Series) []Crossing {
	var all []Crossing
	last, from := 0.0, 0 // the last difference that was not zero, and where
	for k := range a.Points {
		d := math.Log(a.Points[k].Y / b.Points[k].Y)
		if d == 0 {
			continue
		}
		if last*d < 0 {
			x0, x1 := math.Log(a.Points[from].X), math.Log(a.Points[k].X)
			c := Crossing{Below: a.Name, Above: b.Name, X: math.Exp(x0 + (x1-x0)*last/(last-d))}
			if d > 0 {
				c.Below, c.Above = b.Name, a.Name
			}
			all = append(all, c)
		}
		last, from = d, k
	}
	return all
}

// All returns every figure, in the order in which a report shows them.
func All() ([]Figure, error) {
	var all []Figure
	for _, count := range []int{1, 50, 150} {
		f, err := PushPull(count)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	for _, count := range []int{1, 150} {
		f, err := ArrayBound(count)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	random := func() (Figure, error) { return SparseOverCards(false) }
	same := func() (Figure, error) { return SparseOverCards(true) }
	for _, figure := range []func() (Figure, error){TreeAgainstRing, AllReduceOverHosts, StartMessages, SparseAgainstAuthors, random, same} {
		f, err := figure()
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}
