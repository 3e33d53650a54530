package planner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/machines"
)

// graphHelp is the form of a graph file, for people.
const graphHelp = `graph file (JSON; GB = 1e9 bytes):
  {"name": "two hosts", "ranks": 4, "hosts": [0, 0, 1, 1],
   "links": [
     {"a": 0, "b": 1, "gbytes_per_second": 20, "latency_us": 0.5, "kind": "shm"},
     {"a": 2, "b": 3, "gbytes_per_second": 20, "latency_us": 0.5, "kind": "shm"},
     {"a": 1, "b": 2, "gbytes_per_second": 1.25, "latency_us": 30, "kind": "tcp",
      "source": "declared"}],
   "ports": [{"name": "card of host 1", "ranks": [2, 3], "gbytes_per_second": 1.25}]}

  ranks   how many, 1 to 65536; each has a number, from 0 on
  hosts   the host of every rank, a number (default: all on one)
  links   a pair of ranks each, at most one per pair, 2097152 in all. The rate holds
          each way, 1e-9 to 1e9. latency_us is one way, 1e-9 to 1e9, or 0: not
          known; kind is a word for people; source is "declared", "estimated"
          or "measured"; declared_gbytes_per_second is what was declared of a
          rate that was measured since
  ports   sets of ranks whose traffic with all others shares one rate, each way: a
          network card, a PCIe uplink, a socket interconnect; at most 65536
  name, hosts, ports, latency_us, kind, source and declared_... may be left out.
  Links must connect all ranks. Unknown fields, fields that stand twice and numbers
  outside these limits are errors. Names have at most 256 characters that can be
  printed, a file at most 256 MiB. Whole numbers are written without point and
  exponent.

limits of the algorithms: packing, and the bound of a plan, up to 1024 ranks;
exact up to 16.
`

// loadGraph returns the graph of a machine, or of a file: what has a slash, a
// dot followed by json, or no machine of its name is a file, and "-" is the
// standard input. An error names the file, the element and the reason.
func loadGraph(name string) (*topo.Graph, error) {
	if name == "" {
		return nil, usage("no graph given: --graph FILE (- is the standard input), or --graph with a machine: %s",
			strings.Join(machines.Names(), " "))
	}
	if g, ok := machines.Get(name); ok {
		return g, nil
	}
	data, at, err := readText(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usage("graph %s: no such file, and no machine of that name; known machines: %s",
			name, strings.Join(machines.Names(), " "))
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
