package tuner

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// Head is what stands above the points of a collective.
func Head(p *suite.Point) string {
	s := fmt.Sprintf("# %s on %d ranks, float32, in us: median, on the slowest rank\n# %10s", p.Collective, p.NP, "size")
	for _, c := range p.Candidates {
		s += fmt.Sprintf("  %12s", c.Plan)
	}
	return s + "  chosen\n"
}

// Line is one point, with what was chosen there.
func Line(p *suite.Point, chosen string) string {
	size := cmdline.Size(p.Bytes)
	s := fmt.Sprintf("  %10s", &size)
	for _, c := range p.Candidates {
		s += fmt.Sprintf("  %12.2f", c.Us)
	}
	return s + "  " + chosen + "\n"
}

// Explanation is a point of --explain.
func Explanation(p *suite.Point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", p.Collective)
	if p.Bytes > 0 {
		size := cmdline.Size(p.Bytes)
		fmt.Fprintf(&b, " of %s (%d bytes)", &size, p.Bytes)
	}
	fmt.Fprintf(&b, " on %d ranks\n%14s  %14s  %14s\n", p.NP, "plan", "predicted (us)", "measured (us)")
	quickest := p.Candidates[0]
	for _, c := range p.Candidates {
		predicted, note := "-", ""
		if c.PredictedUs != nil {
			predicted = fmt.Sprintf("%.2f", *c.PredictedUs)
		}
		if c.Plan == p.Chosen {
			note = "  chosen by " + p.By
		}
		if c.Us < quickest.Us {
			quickest = c
		}
		fmt.Fprintf(&b, "%14s  %14s  %14.2f%s\n", c.Plan, predicted, c.Us, note)
	}
	fmt.Fprintf(&b, "the quickest was %s\n%s\n", quickest.Plan, p.Links)
	return b.String()
}
