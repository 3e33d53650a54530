//go:build linux

package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/treerun/treerun/internal/chart"
)

// curve holds a curve's points, in increasing order of X.
type curve []chart.Point

// Over returns the quotient of a curve and another with the same X.
func (c curve) Over(other curve) curve {
	quotient := make(curve, len(c))
	for i, p := range c {
		quotient[i] = chart.Point{X: p.X, Y: p.Y / other[i].Y}
	}
	return quotient
}

// Steps returns the differences from point to point.
func (c curve) Steps() curve {
	steps := make(curve, len(c)-1)
	for i := range steps {
		steps[i] = chart.Point{X: c[i+1].X, Y: c[i+1].Y - c[i].Y}
	}
	return steps
}

// Within returns the points from one X to another.
func (c curve) Within(least, most float64) curve {
	return slices.DeleteFunc(slices.Clone(c), func(p chart.Point) bool { return p.X < least || p.X > most })
}

// At returns the value at a point, NaN if there is none.
func (c curve) At(x float64) float64 {
	for _, p := range c {
		if p.X == x {
			return p.Y
		}
	}
	return math.NaN()
}

// Point returns a point by its index, counted from the end if negative.
func (c curve) Point(i int) chart.Point {
	if i < 0 {
		i += len(c)
	}
	return c[i]
}

// Highest returns the point with the largest value, the first of several.
func (c curve) Highest() chart.Point {
	return slices.MaxFunc(c, func(a, b chart.Point) int { return cmp.Compare(a.Y, b.Y) })
}

// Least returns the smallest value.
func (c curve) Least() float64 {
	return slices.MinFunc(c, func(a, b chart.Point) int { return cmp.Compare(a.Y, b.Y) }).Y
}

// Most returns the largest value.
func (c curve) Most() float64 { return c.Highest().Y }

// Away returns the difference of each value from 1.
func (c curve) Away() curve {
	away := slices.Clone(c)
	for i := range away {
		away[i].Y = math.Abs(away[i].Y - 1)
	}
	return away
}

// between returns the interpolated value at x, on logarithmic axes.
func (c curve) between(x float64) float64 {
	for k := 1; k < len(c); k++ {
		a, b := c[k-1], c[k]
		if x <= b.X {
			t := math.Log(x/a.X) / math.Log(b.X/a.X)
			return math.Exp(math.Log(a.Y) + t*math.Log(b.Y/a.Y))
		}
	}
	return c[len(c)-1].Y
}

// crossing holds the X from which one curve is below another that was below it before, interpolated between points.
type crossing struct {
	Below, Above string
	X            float64
}

// crossings returns the points at which the order of any two of the curves, which have the same X, changes, in
// increasing order of X.
func crossings(series []chart.Curve) []crossing {
	var all []crossing
	for i, a := range series {
		for _, b := range series[:i] {
			last, from := 0.0, 0 // the last difference that was not zero, and where
			for k := range a.Points {
				d := math.Log(a.Points[k].Y / b.Points[k].Y)
				if d == 0 {
					continue
				}
				if last*d < 0 {
					x0, x1 := math.Log(a.Points[from].X), math.Log(a.Points[k].X)
					c := crossing{a.Name, b.Name, math.Exp(x0 + (x1-x0)*last/(last-d))}
					if d > 0 {
						c.Below, c.Above = b.Name, a.Name
					}
					all = append(all, c)
				}
				last, from = d, k
			}
		}
	}
	slices.SortStableFunc(all, func(a, b crossing) int { return cmp.Compare(a.X, b.X) })
	return all
}
