package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const intro = `# What the simulator says of the design documents' results

This page goes through every figure and every table of the design documents. Where one
shows results, treerun's simulator computes them anew, by pricing plans with
` + "`collective/sim`" + ` or by running the sparse protocols with a clock. Nothing was
measured for it, and it is the shape of the curves that counts, not the microseconds.

The numbers are computed and checked by two tests, and one program makes this page and
its plots of them:

    go test -run TestFigures ./collective/sim ./collective/sparse/omni -rewrite
    go run ./scripts/simulated docs/results

` + "`reproduced`" + `: the simulated curves, or a test, say the same. ` + "`differs`" + `: they do
not, and the row says why as far as it is known. ` + "`fitted`" + `: a constant was chosen so that
it comes out. ` + "`cannot be`" + `: what it takes is not here. ` + "`a drawing`" + `: it shows an idea
and no result.

## Every figure and table of the design documents

`

// page writes the report. Figures stand in the order in which they come.
func page(all []Figure, r *results) (string, error) {
	documents, err := r.documents()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(intro)
	for _, d := range documents {
		fmt.Fprintf(&b, "### %s\n\n", d.Title)
		rows(&b, "What | The document | | Here", d.Rows)
	}
	b.WriteString("## treerun's own goals\n\nThey are of no document.\n\n")
	rows(&b, "What | The goal | | Here", r.goals())
	for i := range all {
		f := &all[i]
		fmt.Fprintf(&b, "## %s\n\n![%s](%s)\n\n", f.Title, f.Title, svgName(f))
		for _, n := range f.Notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
		b.WriteByte('\n')
		if !f.Times {
			meetings(&b, f)
		}
		table(&b, f)
	}
	iterations(&b, r.tables)
	constants(&b, r.tables["constants"])
	return b.String(), nil
}

func rows(b *strings.Builder, head string, list []Row) {
	fmt.Fprintf(b, "| %s |\n|---|---|---|---|\n", head)
	for _, r := range list {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", r.What, r.Says, r.Verdict, r.Found)
	}
	b.WriteByte('\n')
}

// iterations writes the sizes of the networks and what their iterations take.
func iterations(b *strings.Builder, tables map[string][][]string) {
	b.WriteString("## Four networks\n\nThe layers and their sources stand in " +
		"`collective/sim/testdata/networks.txt`. Floats and multiplications (of one image, on the way " +
		"forward) are sums over them.\n\n")
	list := tables["networks"]
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(list[0], " | "), strings.Repeat("--:|", len(list[0])-1))
	for _, row := range list[1:] {
		fmt.Fprintf(b, "| %s |", titles[row[0]])
		for _, cell := range row[1:] {
			fmt.Fprintf(b, " %s |", grouped(cell))
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nAn iteration, in ms:\n\n")
	for i, name := range networks {
		for k, kind := range []string{"fp32", "fp16"} {
			list := tables[name+"-"+kind]
			if i+k == 0 {
				fmt.Fprintf(b, "| network | | %s |\n|---|---|%s\n", strings.Join(list[0], " | "),
					strings.Repeat("--:|", len(list[0])))
			}
			for _, row := range list[1:] {
				fmt.Fprintf(b, "| %s | %s | %s |", titles[name], kind, row[0])
				for _, cell := range row[1:] {
					v, _ := strconv.ParseFloat(cell, 64) // curves has read it
					fmt.Fprintf(b, " %s |", digits(v))
				}
				b.WriteByte('\n')
			}
		}
	}
	b.WriteByte('\n')
}

// meetings says where curves cross, or how far apart the two of a figure end.
func meetings(b *strings.Builder, f *Figure) {
	for _, c := range f.Crossings {
		fmt.Fprintf(b, "- From about %s %s on, the curve of **%s** lies below that of **%s**.\n", About(c.X),
			f.XUnit, c.Below, c.Above)
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
			v := digits(s.Points[k].Y)
			if f.Times {
				v = fmt.Sprintf("%.2f", s.Points[k].Y)
			}
			fmt.Fprintf(b, " %s |", v)
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

// Grouped writes a whole number with a comma between thousands.
func Grouped(v float64) string { return grouped(strconv.FormatFloat(v, 'f', 0, 64)) }

func grouped(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// About writes a number with the three digits that an interpolation is good for.
func About(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return Grouped(math.Round(v/unit) * unit)
}

// digitsOf writes a value as short as it can be.
func digitsOf(v float64) string { return fmt.Sprintf("%.4g", v) }
