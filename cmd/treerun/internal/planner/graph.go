package planner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// loadGraph returns the graph of a machine, or of a file: what has a slash, a
// dot followed by json, or no machine of its name is a file. An error names the
// file, the element and the reason.
func loadGraph(name string) (*topo.Graph, error) {
	if name == "" {
		return nil, exitcode.Errorf(exitcode.Usage, "no graph given: --graph FILE, or --graph with a machine: %s", strings.Join(machines.Names(), " "))
	}
	if g, ok := machines.Get(name); ok {
		return g, nil
	}
	data, err := readFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("graph %w, and no machine has that name (there are %s)", err, strings.Join(machines.Names(), " "))
	}
	if err != nil {
		return nil, fmt.Errorf("graph %w", err)
	}
	g, err := topo.ParseGraph(data)
	if err != nil {
		return nil, fmt.Errorf("graph %s: %w", name, err)
	}
	return g, nil
}

// readFile reads a file that may be a pipe, but not one that never ends.
func readFile(name string) (data []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	data, err = io.ReadAll(io.LimitReader(f, topo.MaxGraphBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > topo.MaxGraphBytes {
		return nil, fmt.Errorf("%s: more than %d bytes", name, topo.MaxGraphBytes)
	}
	return data, nil
}

// title names a graph for people.
func title(g *topo.Graph) string {
	ranks := fmt.Sprintf("%d ranks", g.Ranks)
	if g.Ranks == 1 {
		ranks = "1 rank"
	}
	if g.Name == "" {
		return ranks
	}
	return g.Name + " (" + ranks + ")"
}
