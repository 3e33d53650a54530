package bench

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// explanation is a point as text.
func explanation(p *meter.Point) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", p.Collective)
	if p.Bytes > 0 {
		size := cmdline.Size(p.Bytes)
		fmt.Fprintf(&b, " of %s (%d bytes)", &size, p.Bytes)
	}
	width := 14
	for _, c := range p.Candidates {
		width = max(width, len(c.Plan))
	}
	fmt.Fprintf(&b, " on %d ranks\n%*s  %14s  %14s\n", p.NP, width, "plan", "predicted (us)", "measured (us)")
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
		fmt.Fprintf(&b, "%*s  %14s  %14.2f%s\n", width, c.Plan, predicted, c.Us, note)
	}
	fmt.Fprintf(&b, "the quickest was %s\n%s\n", quickest.Plan, p.Links)
	return b.String()
}
