package bench

import (
	"fmt"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/meter"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

// explanation formats a row as text.
func explanation(p *meter.Row) string {
	var b strings.Builder
	x := p.Explained
	fmt.Fprintf(&b, "%s", p.Collective)
	if p.Bytes > 0 {
		size := cmdline.Size(p.Bytes)
		fmt.Fprintf(&b, " of %s (%d bytes)", &size, p.Bytes)
	}
	width := 14
	for _, c := range x.Candidates {
		width = max(width, len(c.Plan))
	}
	fmt.Fprintf(&b, " on %d ranks\n%*s  %14s  %14s\n", p.NP, width, "plan", "predicted (us)", "measured (us)")
	quickest := x.Candidates[0]
	for _, c := range x.Candidates {
		predicted, note := "-", ""
		if c.PredictedUs != nil {
			predicted = fmt.Sprintf("%.2f", *c.PredictedUs)
		}
		if c.Plan == p.Plan {
			note = "  chosen by " + x.By
		}
		if c.Us < quickest.Us {
			quickest = c
		}
		fmt.Fprintf(&b, "%*s  %14s  %14.2f%s\n", width, c.Plan, predicted, c.Us, note)
	}
	fmt.Fprintf(&b, "the quickest was %s\n%s\n", quickest.Plan, x.Links)
	return b.String()
}
