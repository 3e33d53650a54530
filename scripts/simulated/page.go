package main

import (
	"fmt"
	"math"
	"strings"
)

const intro = `# What the simulator says of the designs' own results

Every figure here is computed by pricing plans with ` + "`collective/sim`" + `; nothing
was measured for it, and it is the shape of the curves that counts, not the
microseconds. This page and its plots are written by one command:

    go run ./scripts/simulated docs/results

`

// page writes the report. Figures stand in the order in which they come.
func page(all []Figure, lines [][]string) string {
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
		meetings(&b, f)
		table(&b, f)
	}
	constants(&b, lines)
	return b.String()
}

// claims says of which shapes of the originals the simulated curves have, and
// which not.
func claims(b *strings.Builder, all []Figure) {
	b.WriteString("## What is reproduced, and what is not\n\n| The original | The simulated curves | |\n|---|---|---|\n")
	for i := range all {
		for _, c := range all[i].judge(&all[i]) {
			verdict := "**not reproduced**"
			if c.Holds {
				verdict = "reproduced"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", c.Text, c.Found, verdict)
		}
	}
	b.WriteByte('\n')
}

// meetings says where curves cross, or how far apart the two of a figure end.
func meetings(b *strings.Builder, f *Figure) {
	for _, c := range f.Crossings {
		fmt.Fprintf(b, "- From about %s %s on, the curve of **%s** lies below that of **%s**.\n", About(c.X), f.XUnit, c.Below, c.Above)
	}
	if len(f.Crossings) == 0 {
		b.WriteString("- No two of the curves cross.\n")
	}
	if len(f.Series) == 2 {
		first, second := f.Series[0], f.Series[1]
		k := len(first.Points) - 1
		what, _, _ := strings.Cut(f.YLabel, " (")
		fmt.Fprintf(b, "- At %s %s **%s** is at %.3g times the %s of **%s**.\n", Grouped(first.Points[k].X), f.XUnit,
			second.Name, second.Points[k].Y/first.Points[k].Y, what, first.Name)
	}
	b.WriteByte('\n')
}

// table writes the values of all curves.
func table(b *strings.Builder, f *Figure) {
	fmt.Fprintf(b, "| %s |", f.XLabel)
	for _, s := range f.Series {
		fmt.Fprintf(b, " %s, %s |", s.Name, f.YLabel)
	}
	b.WriteString("\n|--:|" + strings.Repeat("--:|", len(f.Series)) + "\n")
	for k, p := range f.Series[0].Points {
		fmt.Fprintf(b, "| %s |", Grouped(p.X))
		for _, s := range f.Series {
			fmt.Fprintf(b, " %s |", digits(s.Points[k].Y))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// constants prints the constants that the figures stand on.
func constants(b *strings.Builder, lines [][]string) {
	b.WriteString("## Constants\n\nTimes are in microseconds, rates in GB/s; what is not listed costs nothing. " +
		"What each of them means stands at `sim.Machine`.\n\n")
	for _, line := range lines {
		fmt.Fprintf(b, "- **%s**: %s.\n", line[0], line[1])
	}
}

// digits writes a value with three digits that count, and no exponent.
func digits(v float64) string {
	if v >= 1000 {
		return Grouped(v)
	}
	after := 2 - int(math.Floor(math.Log10(v)))
	return fmt.Sprintf("%.*f", max(after, 0), v)
}

// digitsOf writes a value as short as it can be.
func digitsOf(v float64) string { return fmt.Sprintf("%.4g", v) }
