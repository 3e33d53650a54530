package planner

import (
	"fmt"
	"io"

	"github.com/treerun/treerun/topo/draw"
	"github.com/treerun/treerun/topo/machines"
)

const planHelp = `treerun plan makes the trees of a collective on a graph, and proves how good they
are: rate, bound, and the links that are the limit.

usage:
  treerun plan --graph FILE|MACHINE [flags]

flags:
%s
The predicted time has the rates and latencies of the graph, chunks of 32,
128 or 512 KiB, whichever is best, in 8 slots per link, and 0.15 us per step.
"busiest" is for trees of equal parts (multi, kl, exact): how many of them use the
busiest link, as a multiple of what one use puts on the slowest link; on a DGX-1V
that is a single NVLink.
A graph that cannot be used gives exit code 125, and the file, the element and the
reason.

%s
treerun topo --help has the form of a graph file, and more about the machines:
%s`

// Plan runs the subcommand plan with the arguments after its name.
func Plan(w io.Writer, args []string) error {
	r, bytes, format, help := &request{}, size(64<<20), "text", false
	f := newFlags("plan", &r.graphName, &help)
	r.register(f)
	f.Var(&bytes, "bytes", "size of the message; K, M, G and T are powers of 1024")
	f.VarP(&choice{&format, graphFormats}, "format", "f", "`FORMAT`: "+or(graphFormats))
	if err := parse(f, args); err != nil {
		return err
	}
	if help {
		_, err := fmt.Fprintf(w, planHelp, f.FlagUsages(), autoLimits(), machines.List())
		return err
	}
	if err := r.resolve(f); err != nil {
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
	list, err := r.candidates()
	if err != nil {
		return "", err
	}
	d, err := r.cheapest(list, bytes)
	if err != nil {
		return "", err
	}
	if err := d.verify(); err != nil {
		return "", err
	}
	c, err := r.certify()
	if err != nil {
		return "", err
	}
	switch format {
	case "json":
		data, err := d.json(r, c)
		return string(data), err
	case "text":
		return draw.Text(r.g, d.drawing(r, c)), nil
	}
	return picture(r.g, d.drawing(r, c), format), nil
}
