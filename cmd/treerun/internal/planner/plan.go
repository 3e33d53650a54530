package planner

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
)

//go:embed help/plan.txt
var planHelp string

// Plan runs the subcommand plan with the arguments after its name.
func Plan(w io.Writer, args []string) error {
	r, bytes, format := &request{}, size(64<<20), "text"
	done, err := r.read(w, "plan", planHelp, args, func(f *pflag.FlagSet) {
		f.Var(&bytes, "bytes", "size of the message; K, M, G and T are powers of 1024")
		f.VarP(cmdline.Word(&format, graphFormats...), "format", "f", "`FORMAT`: "+cmdline.Or(graphFormats))
	})
	if done || err != nil {
		return err
	}
	text, err := r.printed(int64(bytes), format)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// printed makes the plan and writes it in a format.
func (r *request) printed(bytes int64, format string) (string, error) {
	d, err := r.design(bytes)
	if err != nil {
		return "", err
	}
	if r.g.Ranks <= maxVerified {
		if err := r.Verify(d.Served); err != nil {
			return "", err
		}
	}
	if d.bound, err = r.Certify(r.kind, r.root, d.Served); err != nil {
		return "", err
	}
	if format == "json" {
		data, err := d.json()
		return string(data), err
	}
	if d.considered, err = r.Consider(r.kind, r.root, d.Bytes); err != nil {
		return "", err
	}
	if format == "text" {
		return draw.Text(r.g, d.drawing()), nil
	}
	return picture(r.g, d.drawing(), format), nil
}

// maxVerified is the number of ranks up to which a printed plan is verified.
const maxVerified = 64

// design is a plan for one size of message, with what is known of it.
type design struct {
	*planner.Choice
	r          *request
	bound      planner.Certificate
	considered []planner.Considered
}

func (r *request) design(bytes int64) (*design, error) {
	if r.kind == plan.Barrier {
		bytes = 0
	}
	c, err := r.Choose(r.kind, r.root, bytes)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", r.kind, title(r.g), err)
	}
	return &design{Choice: c, r: r}, nil
}

// json is the plan as a file that treerun bench --plan reads.
func (d *design) json() ([]byte, error) {
	f := d.File()
	f.Bound, f.TightPartition = d.bound.Rate, d.bound.Partition
	f.ChunkBytes, f.Options = int64(d.chunk()), d.r.options.Map()
	f.MinChunkBytes = min(int64(cmp.Or(d.Chunks.Min, plan.MinChunk)), f.ChunkBytes)
	f.Note = strings.Join(append(slices.Clone(d.remarks()), d.r.assumed()), "; ")
	return f.Append(nil, d.Plan)
}

// chunk is the size of the chunks in which the plan moves the message, 0 for one without
// data.
func (d *design) chunk() int {
	if d.Bytes == 0 || d.r.g.Ranks == 1 {
		return 0
	}
	return d.r.ChunkBytes(d.Served, d.Bytes)
}

// drawing is the design as package draw shows it. A ring is drawn once for both
// its directions, with the rate that it puts on a link.
func (d *design) drawing() draw.Plan {
	p := draw.Plan{Title: d.headline()}
	for _, s := range d.Channels {
		switch {
		case s.Ring == nil:
			p.Trees = append(p.Trees, s.Tree)
			p.Rates = append(p.Rates, s.Rate)
		case !s.Mirrored:
			p.Rings = append(p.Rings, s.Ring)
			p.Rates = append(p.Rates, s.Rate*d.onLink())
		}
	}
	p.Notes = append(d.proof(), d.sharing()...)
	p.Notes = append(p.Notes, d.choosing()...)
	for _, n := range d.remarks() {
		if !slices.ContainsFunc(p.Trees, func(t topo.Tree) bool { return t.Note == n }) { // those are drawn
			p.Warnings = append(p.Warnings, n)
		}
	}
	return p
}

// onLink is what a ring puts on every link one way, as a part of the message.
func (d *design) onLink() float64 {
	n := float64(d.r.g.Ranks)
	switch {
	case d.r.kind == plan.AllReduce:
		return 2 * (n - 1) / n
	case d.r.kind.HasParts():
		return (n - 1) / n
	}
	return 1
}

// remarks are the notes of the algorithm, among others the limits that it does not keep.
func (d *design) remarks() []string {
	if d.r.g.Ranks == 1 {
		return nil
	}
	return d.Notes
}

func (d *design) headline() string {
	what := fmt.Sprintf("%s of %s on %s", d.r.kind, numbers.Bytes(d.Bytes), title(d.r.g))
	if d.r.kind == plan.Barrier {
		what = fmt.Sprintf("%s on %s", d.r.kind, title(d.r.g))
	}
	switch {
	case d.r.g.Ranks == 1:
		return what + ": nothing to send"
	case math.IsNaN(d.PredictedUs):
		return fmt.Sprintf("%s, %s: it has no price: too many steps, or parts that pass between ranks without a link",
			d.Name(), what)
	case d.Bytes == 0:
		return fmt.Sprintf("%s, %s: %.1f us predicted", d.Name(), what, d.PredictedUs)
	}
	return fmt.Sprintf("%s, %s: %.1f us predicted, %.4g GB/s",
		d.Name(), what, d.PredictedUs, algGBs(d.Bytes, d.PredictedUs))
}

func algGBs(bytes int64, us float64) float64 {
	if us == 0 {
		return 0
	}
	return float64(bytes) / us / 1e3
}

// proof says the rate, the bound, their ratio and why.
func (d *design) proof() []string {
	bound := d.r.boundLine(d.bound.Rate, d.bound.Words)
	rate := fmt.Sprintf("rate %.4g GB/s", d.Rate())
	if len(d.Channels) == 0 {
		rate = "no trees, and no rate of theirs"
	}
	switch {
	case d.r.g.Ranks == 1:
		return []string{bound}
	case d.bound.Rate == 0 || len(d.Channels) == 0:
		return []string{rate + "; " + bound}
	}
	list := append(d.achieved(), "limit: "+d.bound.Words)
	switch {
	case d.Channels[0].Ring != nil:
		list = append(list, "the rate shown with a ring is what it puts on a link each way, not the message's")
	case d.OfParts():
		list = append(list,
			"every tree carries its share of its root's part, one way; "+
				"loads above count both directions together, and are at most that")
	case d.r.kind != plan.AllReduce:
		list = append(list, "loads above count both directions together, and are at most that")
	}
	return list
}

// boundLine is the bound in one line.
func (r *request) boundLine(rate float64, words string) string {
	switch {
	case r.g.Ranks == 1:
		return "no bound: one rank sends nothing"
	case rate == 0:
		return "bound: " + words
	}
	return fmt.Sprintf("bound %.4g GB/s: %s", rate, words)
}

// lowPrediction is the part of the rate below which a prediction is explained.
const lowPrediction = 0.9

// achieved says how near to the bound the plan comes: what runs for this
// message, and all channels together, where those are more.
func (d *design) achieved() []string {
	percent := func(rate float64) float64 { return 100 * d.bound.Ratio(rate) }
	rate := d.Rate()
	list := []string{fmt.Sprintf("rate %.4g GB/s: %.4g %% of the bound, %.4g GB/s", rate, percent(rate), d.bound.Rate)}
	if used := d.Used(); used < len(d.Channels) {
		all := fmt.Sprintf("rate of all %d together: %.4g GB/s, %.4g %% of the bound", len(d.Channels), rate, percent(rate))
		rate = d.r.Fullest(d.Served)
		list = []string{fmt.Sprintf("rate of the %d used for this message: %.4g GB/s, %.4g %% of the bound, %.4g GB/s",
			used, rate, percent(rate), d.bound.Rate), all}
	}
	if got := algGBs(d.Bytes, d.PredictedUs); got < lowPrediction*rate {
		list = append(list, fmt.Sprintf(
			"predicted is %.3g %% of that rate, which full links would have: "+
				"latencies, steps and chunks that wait for each other take the rest", 100*got/rate))
	}
	return list
}

// sharing says which channels this message takes.
func (d *design) sharing() []string {
	if len(d.Channels) < 2 {
		return nil
	}
	var parts []string
	for i, s := range d.Shares {
		if i == 16 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("%.3g", s))
	}
	return []string{fmt.Sprintf("this message uses %d of %d: shares %s",
		d.Used(), len(d.Channels), strings.Join(parts, " "))}
}

// choosing says what else was considered, what runs other sizes, and what the prices
// are for.
func (d *design) choosing() []string {
	if d.r.g.Ranks == 1 {
		return nil
	}
	list := []string{"chosen by " + d.By}
	for _, c := range d.considered {
		switch {
		case c.Why != "":
			list = append(list, fmt.Sprintf("considered %s: %s", c.Algorithm, c.Why))
		case math.IsInf(c.PredictedUs, 1):
			list = append(list, fmt.Sprintf("considered %s: no price", c.Algorithm))
		default:
			list = append(list, fmt.Sprintf("considered %s: %.1f us", c.Algorithm, c.PredictedUs))
		}
	}
	if ranges, err := d.r.Table(d.r.kind); err == nil && len(ranges) > 1 {
		var parts []string
		for i, x := range ranges {
			if i == 0 || ranges[i-1].Algorithm != x.Algorithm { // else its chunks are others
				parts = append(parts, fmt.Sprintf("%s from %s", x.Algorithm, numbers.Bytes(x.From)))
			}
		}
		list = append(list, "by size: "+strings.Join(parts, ", "))
	}
	assumed := d.r.assumed()
	if chunk := d.chunk(); chunk > 0 {
		assumed += fmt.Sprintf(", chunks of %s", numbers.Bytes(int64(chunk)))
	}
	return append(list, assumed)
}
