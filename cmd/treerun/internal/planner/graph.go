package planner

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
)

// graphHelp is the form of a graph file, for people.
//
//go:embed help/graph.txt
var graphHelp string

// loadGraph returns the graph of a machine, or of a file: what has a slash, a
// dot followed by json, or no machine of its name is a file, and "-" is the
// standard input. An error names the file, the element and the reason.
func loadGraph(name string) (*topo.Graph, error) {
	if name == "" {
		return nil, usage("no graph given: --graph FILE (- is the standard input), or --graph with a machine: %s",
			strings.Join(topo.Machines(), " "))
	}
	if g, ok := topo.Machine(name); ok {
		return g, nil
	}
	data, at, err := readText(name)
	if errors.Is(err, os.ErrNotExist) {
		meant := ""
		if near := cmdline.Nearest(name, topo.Machines()); near != "" {
			meant = fmt.Sprintf(" (did you mean %s?)", near)
		}
		return nil, usage("graph %s: no such file, and no machine of that name%s; known machines: %s",
			name, meant, strings.Join(topo.Machines(), " "))
	}
	if err != nil {
		var of *fs.PathError // what was tried says nothing to people
		if errors.As(err, &of) {
			err = of.Err
		}
		return nil, usage("cannot read graph %s%w", at, err)
	}
	g, err := topo.ParseGraph(data)
	if err != nil {
		return nil, usage("graph %s%w", at, err)
	}
	return g, nil
}

// readText reads a file, or the standard input when its name is "-", or takes the text
// itself where it is JSON.
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

// title names a graph for people.
func title(g *topo.Graph) string {
	ranks := numbers.Count(g.Ranks, "rank")
	if g.Name == "" {
		return ranks
	}
	return g.Name + " (" + ranks + ")"
}
