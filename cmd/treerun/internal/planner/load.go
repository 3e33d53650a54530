package planner

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/foreign"
	"github.com/treerun/treerun/topo/gpu"
)

// graphHelp describes the form of a graph file for users.
//
//go:embed help/graph.txt
var graphHelp string

// graphFlags are the flags of a graph that is not measured.
type graphFlags struct {
	name  string // a machine, a file, "-", or JSON
	model string // the kind of GPU, for a file without rates
}

// define adds the flags.
func (g *graphFlags) define(f *pflag.FlagSet, short, usage string) {
	f.StringVarP(&g.name, "graph", short, "", usage)
	cmdline.SetWords(f, "graph", topo.Machines()...)
	f.Var(cmdline.LowerWord(&g.model, gpu.Models()...), "gpu-model",
		"`NAME` of the GPUs of a --graph file of other tools: "+cmdline.JoinOr(gpu.Models()))
}

// load returns the graph of a machine, or of a file: a name with a slash, with a dot followed by json, or without
// a machine of that name is a file, and "-" is the standard input. An error names the file, the element and the reason.
// Parts of a file of other tools that are not known are named on the standard error.
func (g *graphFlags) load() (*topo.Graph, error) {
	if g.name == "" {
		return nil, usage("no graph given: --graph FILE (- is the standard input), or --graph with a machine: %s",
			strings.Join(topo.Machines(), " "))
	}
	if graph, ok := topo.Machine(g.name); ok {
		if g.model != "" {
			return nil, usage("--gpu-model %s: machine %s has rates", g.model, g.name)
		}
		return graph, nil
	}
	data, at, err := readText(g.name)
	if errors.Is(err, os.ErrNotExist) {
		hint := ""
		if near := cmdline.Nearest(g.name, topo.Machines()); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return nil, usage("--graph %s: no such file, and no machine of that name%s; known machines: %s",
			g.name, hint, strings.Join(topo.Machines(), " "))
	}
	if err != nil {
		var pathErr *fs.PathError // the operation in its text means nothing to users
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return nil, usage("cannot read graph %s%w", at, err)
	}
	graph, err := g.parse(data, at)
	if err != nil {
		return nil, usage("graph %s%w", at, err)
	}
	return graph, nil
}

// parse reads the text of a graph, in any of the forms.
func (g *graphFlags) parse(data []byte, at string) (*topo.Graph, error) {
	if !foreign.Is(data) {
		graph, err := topo.ParseGraph(data)
		if err == nil && g.model != "" {
			err = fmt.Errorf("it has rates: --gpu-model %s is for files of other tools", g.model)
		}
		return graph, err
	}
	graph, notes, err := foreign.Parse(data, gpu.FindModel(g.model))
	for _, n := range notes {
		fmt.Fprintf(os.Stderr, "treerun: graph %s%s\n", at, n)
	}
	return graph, err
}

// readText reads a file, or the standard input when its name is "-"; where the name itself is JSON it is the text.
func readText(name string) (data []byte, at string, err error) {
	if name != "-" {
		return safefile.TextOrFile(name, topo.MaxGraphBytes)
	}
	data, err = io.ReadAll(io.LimitReader(os.Stdin, topo.MaxGraphBytes+1))
	if err == nil && len(data) > topo.MaxGraphBytes {
		err = fmt.Errorf("more than %d bytes", topo.MaxGraphBytes)
	}
	return data, "standard input: ", err
}
