package main

import (
	"math"
	"slices"
	"testing"

	"github.com/treerun/treerun/internal/chart"
)

func TestCrossings(t *testing.T) {
	curve := func(name string, y ...float64) chart.Curve {
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
		{curve("a", 1, 1), curve("b", 2, 2), nil},
		{curve("a", 1, 1), curve("b", 10, 0.1), []crossing{{"b", "a", math.Sqrt(10)}}},
		{curve("a", 10, 0.1, 10), curve("b", 1, 1, 1), []crossing{{"a", "b", math.Sqrt(10)}, {"b", "a", 10 * math.Sqrt(10)}}},
		{curve("a", 2, 1, 1, 1), curve("b", 1, 1, 1, 2), []crossing{{"a", "b", math.Pow(10, 1.5)}}},
		{curve("a", 1, 1, 1), curve("b", 2, 1, 2), nil},
	} {
		got := crossings([]chart.Curve{c.a, c.b})
		for i := range got {
			if i < len(c.want) && math.Abs(got[i].x-c.want[i].x) < 1e-9*got[i].x {
				got[i].x = c.want[i].x
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %+v, want %+v", c.a, c.b, got, c.want)
		}
	}
	points := []chart.Point{{X: 1, Y: 1}, {X: 100, Y: 10000}}
	if got := between(points, 10); math.Abs(got-100) > 0.01 {
		t.Errorf("between (1, 1) and (100, 10000) lies (10, %v), want 100", got)
	}
}
