package planner

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
	"github.com/treerun/treerun/topo/machines"
	"github.com/treerun/treerun/topo/pack"
)

const topoHelp = `treerun topo shows a graph: ranks, links, ports, and how fast trees can be on it.

usage:
  treerun topo [-np N] [--format text|json|dot|svg]
  treerun topo --graph FILE|MACHINE [--format text|json|dot|svg]

Without --graph, treerun starts N ranks on this host and measures the links
between them, as it does for a job, whatever earlier jobs have measured. Rates
that differ by no more than they do from run to run are given as one, and so
are latencies. The JSON form can be kept and given to --graph.

flags:
%s
%s
machines:
%s`

// Measure measures the links between n ranks on this host; n = 0 is the
// default number. A nil graph without an error says that the job failed with
// this exit code, and that the cause has been printed.
type Measure func(n cmdline.Ranks) (g *topo.Graph, code int, err error)

// Topo runs the subcommand topo with the arguments after its name, and returns
// the exit code.
func Topo(w io.Writer, args []string, measure Measure) (int, error) {
	var graph string
	format := "text"
	var ranks cmdline.Ranks
	var help bool
	f := newFlags("topo", &graph, &help)
	f.VarP(&ranks, "np", "n", "measure this host with `N` ranks (default: the number of GPUs,\nwithout GPUs of usable cores)")
	f.VarP(&choice{&format, graphFormats}, "format", "f", "`FORMAT`: "+or(graphFormats))
	if err := parse(f, cmdline.Rewrite(args, f)); err != nil {
		return 0, err
	}
	if help {
		_, err := fmt.Fprintf(w, topoHelp, f.FlagUsages(), graphHelp, machines.Details())
		return 0, err
	}
	var g *topo.Graph
	var err error
	switch {
	case f.Changed("np") && f.Changed("graph"):
		return 0, usage("give -np to measure this host, or --graph to show a graph, not both")
	case f.Changed("graph"):
		g, err = loadGraph(graph)
	default:
		var code int
		if g, code, err = measure(ranks); err == nil && g == nil {
			return code, nil
		}
	}
	if err != nil {
		return 0, err
	}
	text, err := topoIn(g, format)
	if err != nil {
		return 0, err
	}
	_, err = io.WriteString(w, text)
	return 0, err
}

// topoIn writes a graph in a format.
func topoIn(g *topo.Graph, format string) (string, error) {
	switch format {
	case "text":
		return topoText(g)
	case "json":
		return indented(g)
	}
	return picture(g, draw.Plan{}, format), nil
}

// parse reads the flags of a subcommand that takes nothing else.
func parse(f *pflag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return usage("%s: %w", f.Name(), err)
	}
	if f.NArg() > 0 {
		return usage("%s: unexpected argument %q", f.Name(), f.Arg(0))
	}
	return nil
}

// graphFormats are those that a graph and a plan can be written in.
var graphFormats = []string{"text", "json", "dot", "svg"}

// picture draws in one of the formats that are no text.
func picture(g *topo.Graph, p draw.Plan, format string) string {
	if format == "dot" {
		return draw.DOT(g, p)
	}
	return draw.SVG(g, p)
}

// topoText adds to the graph's own text what limits trees on it.
func topoText(g *topo.Graph) (string, error) {
	text := g.String()
	if about := machines.About(g.Name); about != "" {
		text += "\n" + about + "\n"
	}
	if g.Ranks == 1 || g.Ranks > pack.MaxRanks {
		return text, nil
	}
	trees, err := pack.TreeBound(g)
	if err != nil {
		return "", err
	}
	cut, err := pack.MinCut(g)
	if err != nil {
		return "", err
	}
	return text + fmt.Sprintf("\nallreduce over trees: at most %.4g GB/s; %s\nbroadcast, reduce: at most %.4g GB/s from every root; %s\n",
		trees.Rate, trees, cut.Rate, cut), nil
}

// indented writes a graph file with a line per link and port.
func indented(g *topo.Graph) (string, error) {
	var head struct {
		Name  string `json:"name,omitempty"`
		Ranks int    `json:"ranks"`
		Hosts []int  `json:"hosts,omitempty"`
	}
	head.Name, head.Ranks, head.Hosts = g.Name, g.Ranks, g.Hosts
	text, err := json.Marshal(head)
	if err != nil {
		return "", err
	}
	text = append(text[:len(text)-1], ",\n \"links\": ["...)
	if text, err = appendLines(text, g.Links); err != nil {
		return "", err
	}
	if len(g.Ports) > 0 {
		text = append(text, ",\n \"ports\": ["...)
		if text, err = appendLines(text, g.Ports); err != nil {
			return "", err
		}
	}
	return string(append(text, "}\n"...)), nil
}

func appendLines[T topo.Link | topo.Port](text []byte, list []T) ([]byte, error) {
	for i, v := range list {
		line, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n  "...), line...)
	}
	return append(text, ']'), nil
}
