package planner

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
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
		f.VarP(cmdline.LowerWord(&format, graphFormats...), "format", "f", "`FORMAT`: "+cmdline.JoinOr(graphFormats))
	})
	if done || err != nil {
		return err
	}
	text, err := r.format(int64(bytes), format)
	if err != nil {
		return err
	}
	if format == "text" {
		text = output.Fold(w, text)
	}
	_, err = io.WriteString(w, text)
	return err
}

// format makes the plan and writes it in a format.
func (r *request) format(bytes int64, format string) (string, error) {
	d, err := r.design(bytes)
	if err != nil {
		return "", err
	}
	if r.g.Ranks <= maxVerified {
		if err := r.p.Site.Verify(d.chosen); err != nil {
			return "", err
		}
	}
	if d.bound, err = r.p.Site.Certify(r.kind, r.root); err != nil {
		return "", err
	}
	if format == "json" {
		data, err := d.json()
		return string(data), err
	}
	if d.considered, err = r.p.Consider(r.kind, r.root, d.choice.Bytes); err != nil {
		return "", err
	}
	if format == "text" {
		return draw.Text(r.g, d.drawing()), nil
	}
	return draw.SVG(r.g, d.drawing()), nil
}

// maxVerified is the number of ranks up to which a printed plan is verified.
const maxVerified = 64

// design is a plan for one size of message, with its bound and the plans considered.
type design struct {
	choice     *planner.Choice
	chosen     *planner.ChosenPlan // of choice
	candidate  *planner.Candidate  // of chosen
	r          *request
	bound      planner.Certificate
	considered []planner.Considered
}

func (r *request) design(bytes int64) (*design, error) {
	if r.kind == plan.Barrier {
		bytes = 0
	}
	c, err := r.p.Choose(r.kind, r.root, bytes)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", r.kind, graphTitle(r.g), err)
	}
	return &design{choice: c, chosen: c.Chosen, candidate: c.Chosen.Candidate, r: r}, nil
}

// json returns the plan as a file for treerun bench --plan.
func (d *design) json() ([]byte, error) {
	f := d.choice.File()
	f.Bound, f.TightPartition = d.bound.Rate, d.bound.Partition
	f.ChunkBytes, f.Options = int64(d.chunk()), d.r.options.Map()
	f.MinChunkBytes = min(int64(cmp.Or(d.chosen.Chunks.Min, plan.MinChunk)), f.ChunkBytes)
	f.Note = strings.Join(slices.Concat(d.candidate.Notes, d.r.g.Doubts(), d.leftOut(), []string{d.r.assumed()}), "; ")
	return f.Append(nil, d.chosen.Plan)
}

// leftOut describes what the bound does not count, if there is anything.
func (d *design) leftOut() []string {
	if d.bound.LeftOut == "" {
		return nil
	}
	return []string{"the bound leaves out " + d.bound.LeftOut}
}

// chunk returns the size of the chunks in which the plan moves the message, 0 for a plan without data.
func (d *design) chunk() int {
	if d.choice.Bytes == 0 || d.r.g.Ranks == 1 {
		return 0
	}
	return d.r.p.Site.ChunkBytes(d.chosen, d.choice.Bytes)
}

// drawing returns the design for package draw. A ring is drawn with the rate that it puts on its links.
func (d *design) drawing() draw.Plan {
	p := draw.Plan{Title: d.noteText("headline")}
	for _, s := range d.candidate.Channels {
		if s.Ring == nil {
			p.Trees = append(p.Trees, s.Tree)
			p.Rates = append(p.Rates, s.Rate)
		} else {
			p.Rings = append(p.Rings, s.Ring)
			p.Rates = append(p.Rates, s.Rate*d.linkLoad())
		}
	}
	p.Notes = strings.Split(d.noteText("notes"), "\n")
	for _, n := range d.candidate.Notes {
		if !slices.ContainsFunc(p.Trees, func(t topo.Tree) bool { return t.Note == n }) { // those are drawn
			p.Warnings = append(p.Warnings, n)
		}
	}
	p.Warnings = append(p.Warnings, d.r.g.Doubts()...)
	return p
}

// linkLoad returns the load of a ring on every link one way, as a part of the message.
func (d *design) linkLoad() float64 {
	n := float64(d.r.g.Ranks)
	switch {
	case d.r.kind == plan.AllReduce:
		return 2 * (n - 1) / n
	case d.r.kind.HasParts():
		return (n - 1) / n
	}
	return 1
}

// notesText has the notes on plans.
//
//go:embed help/notes.tmpl
var notesText string

var notes = template.Must(template.New("").Funcs(template.FuncMap{
	"bytes": numbers.Bytes,
	"gbs":   func(rate float64) string { return fmt.Sprintf("%.4g GB/s", rate) },
}).Parse(notesText))

// lowPrediction is the part of the rate below which a prediction is explained.
const lowPrediction = 0.9

// noteText returns a template of the notes, executed.
func (d *design) noteText(name string) string {
	c, candidate := d.choice, d.candidate
	all, speed, rings := candidate.Rate(), algGBs(c.Bytes, c.PredictedUs), false
	if len(candidate.Channels) > 0 {
		rings = candidate.Channels[0].Ring != nil
	}
	chunk := int64(d.chunk())
	var b strings.Builder
	if err := notes.ExecuteTemplate(&b, name, struct {
		Choice                                  *planner.Choice
		Chosen                                  *planner.ChosenPlan
		Candidate                               *planner.Candidate
		Kind                                    plan.Kind
		Where, BoundLine, Words, Sizes, Assumed string
		Alone, Unpriced, Low, Rings, BothWays   bool
		Speed, OfRate, All                      float64
		Bound, OfBound, AllOfBound              float64
		Chunk                                   int64
		Considered                              []planner.Considered
	}{
		c, d.chosen, candidate, d.r.kind, graphTitle(d.r.g), d.r.boundLine(d.bound.Rate, d.bound.Words), d.bound.Words,
		d.sizesText(), d.r.assumed(), d.r.g.Ranks == 1, math.IsNaN(c.PredictedUs), speed < lowPrediction*c.Rate,
		rings, d.r.kind == plan.AllReduce, speed, 100 * speed / c.Rate, all,
		d.bound.Rate, 100 * d.bound.Ratio(c.Rate), 100 * d.bound.Ratio(all), chunk, d.considered,
	}); err != nil {
		panic(err) // the template is our own
	}
	return strings.TrimSpace(b.String())
}

// sizesText lists the algorithms that run other sizes, "" where all sizes have the same.
func (d *design) sizesText() string {
	ranges, err := d.r.p.Table(d.r.kind)
	if err != nil || len(ranges) < 2 {
		return ""
	}
	var parts []string
	for i, x := range ranges {
		if i == 0 || ranges[i-1].Algorithm != x.Algorithm { // else its chunks are others
			parts = append(parts, fmt.Sprintf("%s from %s", x.Algorithm, numbers.Bytes(x.From)))
		}
	}
	return strings.Join(parts, ", ")
}

func algGBs(bytes int64, us float64) float64 {
	if us == 0 {
		return 0
	}
	return float64(bytes) / us / 1e3
}

// boundLine describes the bound in one line.
func (r *request) boundLine(rate float64, words string) string {
	switch {
	case r.g.Ranks == 1:
		return "no bound: one rank sends nothing"
	case rate == 0:
		return "bound: " + words
	}
	return fmt.Sprintf("bound %.4g GB/s: %s", rate, words)
}
