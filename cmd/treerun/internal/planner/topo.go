package planner

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
	"github.com/treerun/treerun/topo/machines"
	"github.com/treerun/treerun/topo/pack"
)

const topoHelp = `treerun topo shows a graph: ranks, links, ports, and how fast trees can be on it.

usage:
  treerun topo --graph FILE|MACHINE [--format text|json|dot|svg]

flags:
%s
machines:
%s
`

// Topo runs the subcommand topo with the arguments after its name.
func Topo(w io.Writer, args []string) error {
	var graph, format string
	var help bool
	f := newFlags("topo", &graph, &help)
	f.StringVarP(&format, "format", "f", "text", "`FORMAT`: text, json, dot or svg")
	if err := parse(f, args); err != nil {
		return err
	}
	if help {
		_, err := fmt.Fprintf(w, topoHelp, f.FlagUsages(), machines.List())
		return err
	}
	if err := checkFormat(format); err != nil {
		return err
	}
	g, err := loadGraph(graph)
	if err != nil {
		return err
	}
	var text string
	switch format {
	case "text":
		text, err = topoText(g)
	case "json":
		text, err = indented(g)
	default:
		text, err = picture(g, draw.Plan{}, format), nil
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
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

func checkFormat(format string) error {
	switch format {
	case "text", "json", "dot", "svg":
		return nil
	}
	return usage("--format %q: want text, json, dot or svg", format)
}

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
