// Package nodes lets the treeruns of a job find each other where the user, or a
// scheduler, starts one on every host: which of them this one is (from flags and
// from the variables of Slurm, torchrun and LeaderWorkerSet), how node 0 gathers
// the others at a seed address, and the connections between them, which then
// carry what package wire says. It starts no rank. Only the packages below
// cmd/treerun import it.
//
// All know one key. Connections are those of package netconn, with TLS 1.3: both sides
// prove that they know the key and the job id, so nobody else gets in, and nobody can
// read or change what is said.
package nodes

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// MaxNodes is the largest number of nodes: each has a rank.
const MaxNodes = job.MaxRanks

// Config is what a treerun knows before it meets the others.
type Config struct {
	Place
	Size    int      // -np: ranks of the whole job, 0: not said
	PerNode int      // --ppn: ranks on each node, 0: not said
	Default int      // ranks that this node runs when neither is said
	Args    []string // PROGRAM and its arguments
	Version string   // of treerun
	Host    string   // name of this host
	Broken  string   // why this node cannot take part, which the others shall know; "": it can
	Key     []byte
	Timeout time.Duration // until all are there
	Trace   func(format string, args ...any)
	Warn    func(format string, args ...any)
}

// Place is where a treerun stands among those of a job.
type Place struct {
	Nodes int    // how many there are
	Node  int    // which one this is, from 0
	Seed  string // HOST:PORT where node 0 listens
	JobID string // keeps jobs with one key apart; may be empty
	From  string // who said so, for people: "the command line", "Slurm", ...
}

// Check reports what cannot be.
func (p *Place) Check() error {
	switch {
	case p.Nodes < 1 || p.Nodes > MaxNodes:
		return fmt.Errorf("%d nodes, want 1 to %d", p.Nodes, MaxNodes)
	case p.Node < 0 || p.Node >= p.Nodes:
		return fmt.Errorf("node rank %d of %d nodes, want 0 to %d", p.Node, p.Nodes, p.Nodes-1)
	}
	host, port, err := net.SplitHostPort(p.Seed)
	if err != nil {
		return fmt.Errorf("seed %.80q, want HOST:PORT: %w", p.Seed, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return fmt.Errorf("seed %.80q, want HOST:PORT with a port from 1 to 65535", p.Seed)
	}
	if p.JobID != "" {
		return job.CheckID(p.JobID)
	}
	return nil
}

// hello returns what this node says.
func (c *Config) hello() *wire.Node {
	return &wire.Node{
		Node: c.Node, Nodes: c.Nodes, Size: c.Size, PerNode: c.PerNode, Default: c.Default,
		Host: c.Host, Version: c.Version, Args: c.Args, Broken: c.Broken,
	}
}

// differs tells what node h was told otherwise than this one, "" if nothing.
func (c *Config) differs(h *wire.Node) string {
	say := func(what string, there, here any) string {
		return fmt.Sprintf("node %d on host %s has %s %v, node %d on host %s has %v", h.Node, h.Host, what, there, c.Node,
			c.Host, here)
	}
	switch {
	case h.Broken != "":
		return fmt.Sprintf("node %d on host %s: %s", h.Node, h.Host, h.Broken)
	case h.Version != c.Version:
		return say("treerun", h.Version, c.Version) + " (hint: install the same version on all hosts)"
	case h.Nodes != c.Nodes:
		return say("--nnodes", h.Nodes, c.Nodes)
	case h.Size != c.Size:
		return say("-np", given(h.Size), given(c.Size))
	case h.PerNode != c.PerNode:
		return say("--ppn", given(h.PerNode), given(c.PerNode))
	case !slices.Equal(h.Args, c.Args):
		return say("the command", command(h.Args), command(c.Args))
	}
	return ""
}

func given(n int) string {
	if n == 0 {
		return "not given"
	}
	return strconv.Itoa(n)
}

// command shows arguments, shortened.
func command(args []string) string {
	text := strings.Join(args, " ")
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return strconv.Quote(text)
}

// Layout returns how many ranks each node has. defaults is what each runs when
// neither size nor perNode says. Every node gets at least one.
func Layout(nodes, size, perNode int, defaults []int) ([]int, error) {
	counts := make([]int, nodes)
	switch {
	case size > 0 && size < nodes:
		return nil, fmt.Errorf("-np %d leaves some of %d nodes without a rank: start fewer", size, nodes)
	case size > 0 && perNode > 0 && (size > perNode*nodes || size <= perNode*(nodes-1)):
		return nil, fmt.Errorf("-np %d and --ppn %d do not fit %d nodes", size, perNode, nodes)
	}
	left := size
	for i := range counts {
		switch {
		case size > 0 && perNode > 0:
			counts[i] = min(perNode, left)
		case size > 0: // evenly, the first ones have one more
			counts[i] = (left + nodes - i - 1) / (nodes - i)
		case perNode > 0:
			counts[i] = perNode
		default:
			counts[i] = defaults[i]
		}
		left -= counts[i]
	}
	if sum := -(left - size); sum > job.MaxRanks {
		return nil, fmt.Errorf("%d ranks, at most %d are possible", sum, job.MaxRanks)
	}
	return counts, nil
}
