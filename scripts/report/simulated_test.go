//go:build linux

package main

import (
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/chart"
)

func TestCrossings(t *testing.T) {
	named := func(name string, y ...float64) chart.Curve {
		c := chart.Curve{Name: name}
		for i, v := range y {
			c.Points = append(c.Points, chart.Point{X: math.Pow(10, float64(i)), Y: v})
		}
		return c
	}
	for _, c := range []struct {
		a, b chart.Curve
		want []crossing
	}{
		{named("a", 1, 1), named("b", 2, 2), nil},
		{named("a", 1, 1), named("b", 10, 0.1), []crossing{{"b", "a", math.Sqrt(10)}}},
		{named("a", 10, 0.1, 10), named("b", 1, 1, 1), []crossing{{"a", "b", math.Sqrt(10)}, {"b", "a", 10 * math.Sqrt(10)}}},
		{named("a", 2, 1, 1, 1), named("b", 1, 1, 1, 2), []crossing{{"a", "b", math.Pow(10, 1.5)}}},
		{named("a", 1, 1, 1), named("b", 2, 1, 2), nil},
	} {
		got := crossings([]chart.Curve{c.a, c.b})
		for i := range got {
			if i < len(c.want) && math.Abs(got[i].X-c.want[i].X) < 1e-9*got[i].X {
				got[i].X = c.want[i].X
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
	points := curve{{X: 1, Y: 1}, {X: 100, Y: 10000}}
	if got := points.between(10); math.Abs(got-100) > 0.01 {
		t.Errorf("between (1, 1) and (100, 10000) lies (10, %v), want 100", got)
	}
}
