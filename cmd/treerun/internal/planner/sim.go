package planner

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/call"
)

//go:embed help/sim.txt
var simHelp string

// Sim runs the subcommand sim with the arguments after its name.
func Sim(w io.Writer, args []string) error {
	r := &request{}
	s, format := cmdline.Sweep{Begin: 8, End: 1 << 30}, "text"
	done, err := r.read(w, "sim", simHelp, args, func(f *pflag.FlagSet) {
		s.Define(f)
		f.Var(cmdline.LowerWord(&format, "text", "json"), "format", "`FORMAT`: text or json")
	})
	if done || err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return usage("%w", err)
	}
	sizes := s.Sizes()
	for i, n := range sizes {
		if n > 4 {
			sizes[i] = n &^ 3 // whole floats
		}
	}
	if r.kind == plan.Barrier {
		sizes = []int64{0}
	}
	return r.table(w, slices.Compact(sizes), s.InFlight, format)
}

// table writes the predictions for these sizes and numbers of calls in flight, each row as soon as it is known.
func (r *request) table(w io.Writer, sizes []int64, inFlight []int, format string) error {
	bound, err := r.p.Site.Certify(r.kind, r.root)
	if err != nil {
		return err
	}
	for i, bytes := range sizes {
		d, err := r.design(bytes)
		if err != nil {
			return err
		}
		if d.bound = bound; i == 0 && format == "text" {
			if err := d.heading(w); err != nil {
				return err
			}
		}
		for _, n := range inFlight {
			row, err := d.row(n)
			if err != nil {
				return err
			}
			line := []byte(row.text(d))
			if format == "json" {
				if line, err = json.Marshal(row); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
				return err
			}
		}
	}
	return nil
}

// columns is the format of a line of the table, except the last column.
const columns = "%12v  %12v  %8v  %6v  %4v  %8v  %12v  %10v  %10v"

// heading writes the text above the rows.
func (d *design) heading(w io.Writer) error {
	r := d.r
	algorithm := r.options.String()
	if r.options.Algorithm == "" {
		algorithm = "by price" + algorithm
	}
	first := fmt.Sprintf("# treerun sim: predicted, %s on %s, algorithm %s", r.kind, graphTitle(r.g), algorithm)
	lines := []string{first}
	for _, note := range d.candidate.Notes {
		lines = append(lines, "# note: "+note)
	}
	lines = append(lines,
		"# "+r.boundLine(d.bound.Rate, d.bound.Words), "# "+r.assumed(),
		fmt.Sprintf("# "+columns+"  algorithm", "size", "count", "type", "redop", "root", "inflight", "time",
			"algbw", "busbw"),
		fmt.Sprintf("# "+columns, "(B)", "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)"))
	_, err := fmt.Fprintln(w, output.Fold(w, strings.Join(lines, "\n")))
	return err
}

// simRow is a row of the table; the names of its JSON form are those of bench
// where they mean the same.
type simRow struct {
	Collective  string  `json:"collective"`
	Ranks       int     `json:"np"`
	Bytes       int64   `json:"bytes"`
	Count       int64   `json:"count"`
	Type        string  `json:"type"`
	Op          string  `json:"op"`
	Root        int     `json:"root"`
	InFlight    int     `json:"inflight"`
	Algorithm   string  `json:"algorithm"`
	Digest      string  `json:"digest"` // of the plan, as treerun plan prints it
	Trees       int     `json:"trees"`  // or rings and directions
	TreesUsed   int     `json:"trees_used"`
	PredictedUs figure  `json:"predicted_us"`
	AlgBW       figure  `json:"algbw_gbs"`
	BusBW       figure  `json:"busbw_gbs"`
	Bound       float64 `json:"bound_gbytes_per_second"`
	Note        string  `json:"note,omitempty"`
}

// figure is a number that is NaN where there is no price: null in JSON, a dash in text.
type figure float64

// MarshalJSON writes the number, or null.
func (f figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

func (f figure) text(digits int) string {
	if math.IsNaN(float64(f)) {
		return "-"
	}
	return strconv.FormatFloat(float64(f), 'f', digits, 64)
}

// row prices n calls at once. The algorithm is the cheapest for one.
func (d *design) row(n int) (simRow, error) {
	r, root := d.r, -1
	bytes, us := d.choice.Bytes, d.choice.PredictedUs
	if r.kind.HasRoot() {
		root = r.root
	}
	if n > 1 && !math.IsNaN(us) {
		var err error
		if us, err = r.p.Prices.Predict(d.chosen, bytes, n); err != nil {
			return simRow{}, err
		}
	}
	row := simRow{
		Collective: r.kind.String(), Ranks: r.g.Ranks, Bytes: bytes, Count: bytes / 4, Type: "float32", Op: "none",
		Root: root, InFlight: n, Algorithm: d.chosen.Name(), Digest: d.chosen.Plan.Digest(),
		Trees: len(d.candidate.Channels), TreesUsed: d.chosen.Used(), PredictedUs: figure(us), Bound: d.bound.Rate,
		Note: strings.Join(slices.Concat(d.candidate.Notes, d.leftOut(), []string{r.assumed()}), "; "),
	}
	if row.Ranks > 1 {
		row.AlgBW = figure(algGBs(bytes*int64(n), us))
	}
	kind := call.Kind(r.kind)
	row.BusBW = figure(float64(row.AlgBW) * kind.BusFactor(row.Ranks))
	if kind.Reduces() {
		row.Op = "sum"
	}
	if bytes < 4 {
		row.Type, row.Count = "int8", bytes
	}
	return row, nil
}

func (row *simRow) text(d *design) string {
	return fmt.Sprintf("  "+columns+"  %s", row.Bytes, row.Count, row.Type, row.Op, row.Root, row.InFlight,
		row.PredictedUs.text(2), row.AlgBW.text(3), row.BusBW.text(3), d.used())
}

// used names the algorithm and the number of its trees that have a share.
func (d *design) used() string {
	all := len(d.candidate.Channels)
	if all < 2 {
		return d.chosen.Name()
	}
	return fmt.Sprintf("%s %d/%d", d.chosen.Name(), d.chosen.Used(), all)
}
