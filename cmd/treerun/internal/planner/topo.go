package planner

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/topo/pack"
)

//go:embed help/topo.txt
var topoHelp string

// Measured holds the measurements of the links between ranks.
type Measured struct {
	Graph   *topo.Graph
	Network *network.Network   // between hosts; nil for one host
	Unused  string             // why the cached results of earlier jobs on the network were not used
	Hosts   []peers.HostResult // of the GPUs of each host; nil: the ranks have none
}

// Measure measures the links between n ranks on this host, or at the places of where; n = 0 is the default number. A
// nil m without an error means that the job failed with this exit code, and that the cause has been printed.
type Measure func(n int, where *Places) (m *Measured, code int, err error)

// Topo runs the subcommand topo with the arguments after its name, and returns
// the exit code.
func Topo(w io.Writer, args []string, measure Measure) (int, error) {
	var graph graphFlags
	format := "text"
	var ranks int
	var where Places
	var help bool
	f := newFlags("topo", &graph, &help)
	f.VarP(cmdline.Ranks(&ranks), "np", "n",
		"measure with `N` ranks (default: the number of GPUs, without GPUs of usable cores; with hosts, one for every "+
			"slot)")
	f.VarP(cmdline.LowerWord(&format, graphFormats...), "format", "f", "`FORMAT`: "+cmdline.JoinOr(graphFormats))
	where.Define(f)
	if err := parse(f, args); err != nil {
		return 0, err
	}
	if help {
		_, err := fmt.Fprintf(w, topoHelp, cmdline.Usages(f), graphHelp, topo.MachineDetails)
		return 0, err
	}
	m := &Measured{}
	var err error
	switch {
	case f.Changed("graph") && (f.Changed("np") || where.NamesHosts()):
		return 0, usage("give -np or -H to measure hosts, or --graph to show a graph, not both")
	case f.Changed("gpu-model") && !f.Changed("graph"):
		return 0, usage("--gpu-model %s is for --graph", graph.model)
	case f.Changed("graph"):
		m.Graph, err = graph.load()
	default:
		var code int
		if m, code, err = measure(ranks, &where); err == nil && m == nil {
			return code, nil
		}
	}
	if err != nil {
		return 0, err
	}
	text, err := m.format(format)
	if err != nil {
		return 0, err
	}
	if format == "text" {
		text = output.Fold(w, text)
	}
	_, err = io.WriteString(w, text)
	return 0, err
}

// format formats the measurements, or the graph that was read.
func (m *Measured) format(format string) (string, error) {
	switch format {
	case "text":
		return m.text()
	case "json":
		return indented(m.Graph)
	}
	var p draw.Plan
	if m.Network != nil {
		p.Title = fmt.Sprintf("network of %d hosts: %s", len(m.Network.Hosts), m.Network.Origin(time.Now().Unix()))
		p.Hosts = m.Network.Hosts
	}
	return draw.SVG(m.Graph, p), nil
}

// text formats the network between the hosts, the graph of the ranks, unless every host has only one, and the limits of
// trees on it.
func (m *Measured) text() (string, error) {
	var b strings.Builder
	var hosts []string
	if m.Network == nil {
		b.WriteString(m.Graph.String())
	} else {
		hosts = m.Network.Hosts
		b.WriteString(m.Network.Text(time.Now().Unix()))
		if m.Unused != "" {
			b.WriteString(m.Unused + "\n")
		}
		if m.Graph.Ranks > len(hosts) {
			b.WriteString("\n" + m.Graph.String())
		}
	}
	if m.Network != nil || m.Hosts != nil {
		b.WriteString(gpuText(m.Hosts, hosts))
	} else if about := topo.AboutMachine(m.Graph.Name); about != "" {
		b.WriteString("\n" + about + "\n")
	}
	for _, d := range m.Graph.Doubts() {
		b.WriteString("\nwarning: " + d + "\n")
	}
	limits, err := limits(m.Graph)
	return b.String() + limits, err
}

// gpuText lists the ranks on each GPU, and the GPUs that cannot be used.
func gpuText(hosts []peers.HostResult, names []string) string {
	var b strings.Builder
	for i, h := range hosts {
		where := ""
		if len(hosts) > 1 && i < len(names) {
			where = names[i] + ": "
		}
		for k, r := range h.Ranks {
			if d := h.Machine.Find(h.Devices[k]); d != nil {
				fmt.Fprintf(&b, "%srank %d: %s\n", where, r, d)
			}
		}
		for _, line := range append(h.DroppedLines(), h.PCIeLines()...) {
			fmt.Fprintf(&b, "%s%s\n", where, line)
		}
	}
	return b.String()
}

// parse parses the flags of a subcommand that has no other arguments.
func parse(f *pflag.FlagSet, args []string) error {
	if err := cmdline.Parse(f, args, ""); err != nil {
		return usage("%s: %w", f.Name(), err)
	}
	if f.NArg() > 0 {
		hint := ""
		if _, known := topo.Machine(f.Arg(0)); known || strings.HasSuffix(f.Arg(0), ".json") {
			hint = fmt.Sprintf(" (did you mean --graph %s?)", f.Arg(0))
		}
		return usage("%s: unexpected argument %q%s", f.Name(), f.Arg(0), hint)
	}
	return nil
}

// graphFormats are the formats for a graph and a plan.
var graphFormats = []string{"text", "json", "svg"}

// limits describes the rates of trees on g; it returns "" for a graph that is too large.
func limits(g *topo.Graph) (string, error) {
	if g.Ranks == 1 || g.Ranks > pack.MaxRanks {
		return "", nil
	}
	trees, err := pack.FindBound(g, pack.BothWays)
	if err != nil {
		return "", err
	}
	cut, err := pack.FindBound(g, 0)
	if err != nil {
		return "", err
	}
	root := "every root" // the minimum cut separates each from some rank
	if len(g.Ports) > 0 {
		root = "rank 0"
	}
	return fmt.Sprintf("\nallreduce over trees: at most %.4g GB/s; %s\nbroadcast, reduce: at most %.4g GB/s from %s; %s\n",
		trees.Rate, trees, cut.Rate, root, cut), nil
}

// indented writes a graph file with a line per link and port.
func indented(g *topo.Graph) (string, error) {
	data, err := g.AppendJSON(nil)
	lines := strings.NewReplacer(`{"a":`, "\n  {\"a\":", `,{"name":`, ",\n  {\"name\":", `[{"name":`, "[\n  {\"name\":",
		`,"links":`, ",\n \"links\": ", `,"ports":`, ",\n \"ports\": ")
	return lines.Replace(string(data)) + "\n", err
}

// graphTitle returns a name of a graph for users.
func graphTitle(g *topo.Graph) string {
	ranks := numbers.Count(g.Ranks, "rank")
	if g.Name == "" {
		return ranks
	}
	return g.Name + " (" + ranks + ")"
}
