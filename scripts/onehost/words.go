package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// size writes a number of bytes as people do.
func size(bytes int64) string {
	for _, u := range []struct {
		name  string
		shift int
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if bytes >= 1<<u.shift && bytes%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", bytes>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// number writes three digits, or all before the point.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// times writes a ratio.
func times(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// marked writes a ratio, bold where treerun is slower.
func marked(v float64) string {
	if v < 1 {
		return "**" + times(v) + "**"
	}
	return times(v)
}

// share writes a share of a limit.
func share(v float64) string { return times(v) }

// least is NaN for an empty list.
func least(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	return slices.Min(list)
}

func listed(list []string) string {
	if len(list) == 0 {
		return "no size"
	}
	return strings.Join(list, ", ")
}
