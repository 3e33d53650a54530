package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/collective/sim/figures"
)

const intro = `# What the simulator says of the designs' own results

Every figure here is computed by pricing plans with ` + "`collective/sim`" + `; nothing
was measured for it, and it is the shape of the curves that counts, not the
microseconds. This page and its plots are written by one command:

    go run ./collective/sim/figures/report docs/results

`

// page writes the report. Figures stand in the order in which they come.
func page(all []figures.Figure) string {
	var b strings.Builder
	b.WriteString(intro)
	claims(&b, all)
	for i := range all {
		f := &all[i]
		fmt.Fprintf(&b, "## %s\n\n![%s](%s)\n\n", f.Title, f.Title, svgName(f))
		for _, n := range f.Notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
		b.WriteByte('\n')
		crossings(&b, f)
		table(&b, f)
	}
	constants(&b)
	return b.String()
}

// claims says of which shapes of the originals the simulated curves have, and
// which not.
func claims(b *strings.Builder, all []figures.Figure) {
	b.WriteString("## What is reproduced, and what is not\n\n| The original | The simulated curves | |\n|---|---|---|\n")
	for i := range all {
		for _, c := range all[i].Claims {
			verdict := "**not reproduced**"
			if c.Holds {
				verdict = "reproduced"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", c.Text, c.Found, verdict)
		}
	}
	b.WriteByte('\n')
}

// crossings says where curves cross, or how far apart the two of a figure end.
func crossings(b *strings.Builder, f *figures.Figure) {
	for _, c := range f.Crossings {
		fmt.Fprintf(b, "- From about %s %s on, the curve of **%s** lies below that of **%s**.\n", figures.About(c.X), f.XUnit, c.Below, c.Above)
	}
	if len(f.Crossings) == 0 {
		b.WriteString("- No two of the curves cross.\n")
	}
	if len(f.Series) == 2 {
		first, second := f.Series[0], f.Series[1]
		k := len(first.Points) - 1
		what, _, _ := strings.Cut(f.YLabel, " (")
		fmt.Fprintf(b, "- At %s %s **%s** is at %.3g times the %s of **%s**.\n", figures.Grouped(first.Points[k].X), f.XUnit,
			second.Name, second.Points[k].Y/first.Points[k].Y, what, first.Name)
	}
	b.WriteByte('\n')
}

// table writes the values of all curves.
func table(b *strings.Builder, f *figures.Figure) {
	fmt.Fprintf(b, "| %s |", f.XLabel)
	for _, s := range f.Series {
		fmt.Fprintf(b, " %s, %s |", s.Name, f.YLabel)
	}
	b.WriteString("\n|--:|" + strings.Repeat("--:|", len(f.Series)) + "\n")
	for k, p := range f.Series[0].Points {
		fmt.Fprintf(b, "| %s |", figures.Grouped(p.X))
		for _, s := range f.Series {
			fmt.Fprintf(b, " %s |", digits(s.Points[k].Y))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// constants prints the constants that the figures stand on, from where they
// are.
func constants(b *strings.Builder) {
	b.WriteString("## Constants\n\nTimes are in microseconds, rates in GB/s; what is not listed costs nothing. " +
		"What each of them means stands at `sim.Machine`.\n\n")
	for _, m := range []sim.Machine{sim.MXNet(21), sim.MXNetNCCL(), sim.NCCLTree(sim.LL), sim.NCCLRing(sim.LL, 2, 6)} {
		fmt.Fprintf(b, "- **%s**: launch %.4g, issue %.4g an operation, step %.4g", m.Name, m.LaunchUs, m.IssueUs, m.StepUs)
		if m.ReduceGBs > 0 {
			fmt.Fprintf(b, ", reduce %.4g GB/s, copy %.4g GB/s", m.ReduceGBs, m.CopyGBs)
		}
		if m.Slots > 0 {
			fmt.Fprintf(b, ", %d slots of %d bytes", m.Slots, m.SlotBytes)
		}
		if m.RateFactor > 0 {
			fmt.Fprintf(b, ", %.3g of a link's rate", m.RateFactor)
		}
		for _, kind := range []string{sim.NVLink, sim.PCIe, sim.Net} {
			if us, ok := m.LatencyUs[kind]; ok {
				fmt.Fprintf(b, ", latency of %s %.4g", kind, us)
			}
			if rate, ok := m.AdapterGBs[kind]; ok {
				fmt.Fprintf(b, ", all %s of a rank %.4g GB/s", kind, rate)
			}
		}
		b.WriteString(".\n")
	}
}

// digits writes a value with three digits that count, and no exponent.
func digits(v float64) string {
	if v >= 1000 {
		return figures.Grouped(v)
	}
	after := 2 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", max(after, 0), v)
}

// digitsOf writes a value as short as it can be.
func digitsOf(v float64) string { return fmt.Sprintf("%.4g", v) }
