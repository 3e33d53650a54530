package planner

import (
	_ "embed"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
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
