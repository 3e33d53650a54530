//go:build linux

package bench

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/template"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/numbers"
)

// tableWidth is the number of columns of a terminal that the table needs with the
// columns of the plan, if the plan's name is not too long.
const tableWidth = 159

// table prints rows as they come, in the format of nccl-tests, so that programs that read its output can read this one:
// the same columns, widths and roundings. After them, where there is room, follow the mean, the plan, its predicted
// time, and the share of the limit that was reached; these are of the first pass of the line.
type table struct {
	Out  io.Writer
	Wide bool // with the columns of the plan

	options *Options
	np      int
	cases   []Case
	next    int    // the case of the row that comes next
	line    []*Row // of the line that is not complete
	rows    []*Row // of the table that is being printed: of one collective and number in flight
}

// newTable returns a table for these cases on np ranks, which come in this order.
func newTable(out io.Writer, o *Options, np int, cases []Case, wide bool) *table {
	return &table{Out: out, Wide: wide, options: o, np: np, cases: cases}
}

// Begin takes the ranks of the job, before the first row, and prints the text above that.
func (t *table) Begin(ranks []Process) error {
	return head.Execute(t.Out, struct {
		*Options
		Case     *Case
		NP       int
		Ranks    []Process
		WithPlan bool
	}{t.options, &t.cases[t.next], t.np, ranks, t.Wide})
}

// headText is the text above the rows of a collective.
//
//go:embed head.tmpl
var headText string

var head = template.Must(template.New("").Parse(headText))

// Add takes the row of the next case. A line is printed when it has all the passes of the options, one or both.
func (t *table) Add(r *Row) error {
	if len(t.rows) > 0 && (t.rows[0].Collective != r.Collective || t.rows[0].InFlight != r.InFlight) {
		if err := errors.Join(t.End(), t.Begin(nil)); err != nil {
			return err
		}
	}
	t.rows, t.line = append(t.rows, r), append(t.line, r)
	t.next++
	if t.next < len(t.cases) && t.cases[t.next].InPlace && !r.InPlace && t.cases[t.next].Name == r.Collective {
		return nil // its other pass comes next
	}
	_, err := fmt.Fprintln(t.Out, t.row())
	t.line = t.line[:0]
	return err
}

// End prints the text below the rows of a collective.
func (t *table) End() error {
	if len(t.rows) == 0 {
		return nil
	}
	wrong, _ := countWrong(t.rows)
	verdict, busbw := "OK", 0.0
	if wrong > 0 {
		verdict = "FAILED"
	}
	for _, r := range t.rows {
		busbw += r.BusbwGBs
	}
	_, err := fmt.Fprintf(t.Out, "# Out of bounds values : %d %s\n# Avg bus bandwidth    : %.6g\n#\n# Collective test "+
		"concluded: %s\n#\n",
		wrong, verdict, busbw/float64(len(t.rows)), t.rows[0].Collective)
	t.rows = nil
	return err
}

// row formats one line from its rows so far.
func (t *table) row() string {
	r := t.line[0]
	s := fmt.Sprintf("%12d  %12d  %8s  %6s  %6d", r.Bytes, r.Count, r.Type, r.Op, r.Root)
	both := [2]string{}
	for i := range both {
		both[i] = fmt.Sprintf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A")
	}
	for _, r := range t.line {
		i := 0
		if r.InPlace {
			i = 1
		}
		wrong := "N/A"
		if r.Wrong != nil {
			wrong = fmt.Sprintf("%g", float64(*r.Wrong))
		}
		both[i] = fmt.Sprintf("  %7s  %6s  %6s  %6s", figure(r.TimeUs, 7), figure(r.AlgbwGBs, 6), figure(r.BusbwGBs, 6),
			wrong)
	}
	s += both[0] + both[1]
	if t.Wide {
		predicted, plan := "-", "-"
		if r.PredictedUs != nil {
			predicted = figure(*r.PredictedUs, 9)
		}
		if r.Plan != "" {
			plan = r.Plan
		}
		if x := r.Sparse; x != nil {
			plan = sparseText(x)
		}
		s += fmt.Sprintf("  %7s  %9s  %6s  %s", figure(r.MeanUs, 7), predicted, figure(100*r.LimitShare, 6), plan)
	}
	return s
}

// sparseText describes the form and the data of a sparse collective, and the alternatives to the form.
func sparseText(x *Sparse) string {
	s := fmt.Sprintf("%s: density %g, %s overlap, %.3g %% in union, at most %d bytes sent", x.Form, x.Density, x.Overlap,
		100*x.UnionDensity, x.SentBytes)
	separator := "; predicted "
	for _, f := range []struct {
		name string
		us   float64
	}{{"trees", x.TreesUs}, {"shared", x.SharedUs}, {"compact", x.CompactUs}, {"dense", x.DenseUs}} {
		if f.us > 0 {
			s += separator + f.name + " " + strconv.FormatFloat(f.us, 'f', 0, 64)
			separator = ", "
		}
	}
	return s
}

// figure formats a number in the given width as nccl-tests does: with two decimals, with one or none where it gets too
// long, and at last with an exponent.
func figure(v float64, width int) string {
	digits := 0
	for ten := 1.0; v >= ten; ten *= 10 {
		digits++
	}
	format, decimals := byte('f'), 2
	switch {
	case digits < width-2:
	case digits < width-1:
		decimals = 1
	case digits < width+1:
		decimals = 0
	default:
		format, decimals = 'e', 1
		if width < 7 {
			decimals = 0
		}
	}
	return strconv.FormatFloat(v, format, decimals, 64)
}

// explanation formats a row as text.
func explanation(p *Row) string {
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
	fmt.Fprintf(&b, " on %s\n%*s  %14s  %14s\n", numbers.Count(p.NP, "rank"), width, "plan",
		"predicted (us)", "measured (us)")
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
