//go:build linux

// Package nodes connects the treeruns of a job where the user, or a scheduler, starts
// one on every host, a node. It determines the number of this node (from flags and from
// the variables of Slurm, torchrun and LeaderWorkerSet), gathers the nodes at node 0, which
// listens at a seed address, and makes the connections between them, which then carry the
// frames of package wire. It starts no rank. Only the packages below cmd/treerun import it.
//
// All nodes know one key. Connections are those of package netconn, with TLS 1.3: both sides
// prove that they know the key and the job id, so no other process can join, and none can
// read or change the data.
package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
)

// Config holds the settings of a node before it is connected to the others.
type Config struct {
	wire.NodeHello        // what this node sends to node 0
	Seed           string // HOST:PORT where node 0 listens
	JobID          string // distinguishes jobs with the same key; may be empty
	Key            []byte
	Timeout        time.Duration // until all are connected
	Trace          func(format string, args ...any)
	Warn           func(format string, args ...any)

	// Progress, unless it is nil, shows how far a long wait is, until end is called; text may be called at any time.
	Progress func(text func() string) (end func())

	// Again, unless it is nil, takes nodes that connect after all have, with the same settings: as long as the ctx of
	// Gather lives. It calls Accept, or closes the connection, after which the node tries again.
	Again func(*Node)

	// Of FromEnvironment:
	Scheduler string // the scheduler, for people; "": none
	Idle      bool   // another treerun of this host runs all of its ranks
	// Conclusive is false for variables that may be set for another purpose: they count
	// only if the user requests several nodes.
	Conclusive bool
}

// showing shows how far a wait is, until end is called.
func (c *Config) showing(text func() string) (end func()) {
	if c.Progress == nil {
		return func() {}
	}
	return c.Progress(text)
}

// Check reports an error if the numbers, the seed or the job id are invalid.
func (c *Config) Check() error {
	switch {
	case c.Nodes < 1 || c.Nodes > job.MaxRanks: // each has a rank
		return fmt.Errorf("%d nodes, want 1 to %d", c.Nodes, job.MaxRanks)
	case c.Node < 0 || c.Node >= c.Nodes:
		return fmt.Errorf("node rank %d of %s, want 0 to %d", c.Node, numbers.Count(c.Nodes, "node"), c.Nodes-1)
	}
	if _, err := CheckSeed(c.Seed); err != nil {
		return fmt.Errorf("seed %.80q: %w", c.Seed, err)
	}
	if c.JobID != "" {
		return job.CheckID(c.JobID)
	}
	return nil
}

// CheckSeed returns the port of a seed, and an error for what is none.
func CheckSeed(seed string) (port int, err error) {
	host, text, err := net.SplitHostPort(seed)
	n, bad := strconv.ParseUint(text, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" {
		return 0, errors.New("want HOST:PORT with a port from 1 to 65535")
	}
	return int(n), nil
}

// difference describes the first setting of node h that differs from this node's, "" if none does.
func (c *Config) difference(h *wire.NodeHello) string {
	describe := func(what string, there, here any) string {
		return fmt.Sprintf("node %d on host %s has %s %v, node %d on host %s has %v", h.Node, h.Host, what, there, c.Node,
			c.Host, here)
	}
	switch {
	case h.Broken != "":
		return fmt.Sprintf("node %d on host %s: %s", h.Node, h.Host, h.Broken)
	case h.Version != c.Version:
		return describe("treerun", h.Version, c.Version) + " (hint: install the same version on all hosts)"
	case h.Nodes != c.Nodes:
		return describe("--nnodes", h.Nodes, c.Nodes)
	case h.Size != c.Size:
		return describe("-np", countText(h.Size), countText(c.Size))
	case h.PerNode != c.PerNode:
		return describe("--ppn", countText(h.PerNode), countText(c.PerNode))
	case !slices.Equal(h.Args, c.Args):
		return describe("the command", commandText(h.Args), commandText(c.Args))
	}
	return ""
}

func countText(n int) string {
	if n == 0 {
		return "not given"
	}
	return strconv.Itoa(n)
}

// commandText shows arguments, shortened.
func commandText(args []string) string {
	text := strings.Join(args, " ")
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	return strconv.Quote(text)
}

// layout distributes ranks to nodes, in the order of both. defaults holds the number of ranks of
// each node if neither size nor perNode gives it. Every node gets at least one.
func layout(nodes, size, perNode int, defaults []int) ([]place.ListedHost, error) {
	switch {
	case size > 0 && size < nodes:
		return nil, fmt.Errorf("-np %d leaves some of %d nodes without a rank: start fewer", size, nodes)
	case size > 0 && perNode > 0 && (size > perNode*nodes || size <= perNode*(nodes-1)):
		return nil, fmt.Errorf("-np %d and --ppn %d do not fit %d nodes", size, perNode, nodes)
	}
	hosts := make([]place.ListedHost, nodes)
	for i := range hosts {
		if hosts[i].Slots = (size + nodes - i - 1) / nodes; size == 0 { // evenly, the first ones have one more
			hosts[i].Slots = defaults[i]
		}
	}
	return place.MapRanks(hosts, place.Request{Size: size, PerHost: perNode})
}

// variables reads variables of the environment, and keeps the error of the first that could
// not be read.
type variables struct {
	get func(name string) string
	err error
}

// FromEnvironment returns the settings of this node from the variables of a scheduler; nil when
// there are none, or only one node. Its Seed and JobID may be empty, and its Default 0.
func FromEnvironment(get func(name string) string) (*Config, error) {
	v := &variables{get: get}
	f := v.fromSlurm()
	for i := 0; f == nil && v.err == nil && i < len(schedulers); i++ {
		f = v.fromScheduler(&schedulers[i])
	}
	if v.err != nil {
		return nil, fmt.Errorf("environment: %w", v.err)
	}
	return f, nil
}

// scheduler describes the variables in which a scheduler passes its node to a treerun. Its fields
// are their names, "" where it has no such variable.
type scheduler struct {
	name          string
	nodes, node   string
	perNode       string // may also be gpu, cpu or auto
	address, port string // of the seed
	jobID         string
	conclusive    bool // nodes or node alone identifies this scheduler; else both must be set
}

var schedulers = []scheduler{
	{name: "LeaderWorkerSet", nodes: "LWS_GROUP_SIZE", node: "LWS_WORKER_INDEX",
		address: "LWS_LEADER_ADDRESS", conclusive: true},
	// The variables that set options of torchrun, and the usual ones without a prefix.
	{name: "torchrun's variables", nodes: "PET_NNODES", node: "PET_NODE_RANK", perNode: "PET_NPROC_PER_NODE",
		address: "PET_MASTER_ADDR", port: "PET_MASTER_PORT", jobID: "PET_RDZV_ID"},
	{name: "torchrun's variables", nodes: "NNODES", node: "NODE_RANK", perNode: "NPROC_PER_NODE",
		address: "MASTER_ADDR", port: "MASTER_PORT", jobID: "RDZV_ID"},
	// Pods of an indexed Job or a JobSet know only their own index.
	{name: "an indexed Job", node: "JOB_COMPLETION_INDEX"},
}

// defaultPort is the port of a seed if only its host is known.
const defaultPort = "29517"

func (v *variables) fromScheduler(s *scheduler) *Config {
	hasNodes, hasNode := s.nodes == "" || v.get(s.nodes) != "", v.get(s.node) != ""
	if !(hasNodes && hasNode || s.conclusive && (hasNodes || hasNode)) {
		return nil
	}
	f := &Config{Scheduler: s.name, JobID: v.get(s.jobID), Conclusive: s.conclusive}
	if s.nodes != "" {
		f.Nodes = v.number(s.nodes)
	}
	f.Node = v.number(s.node)
	if n := v.get(s.perNode); n != "" && strings.Trim(n, "0123456789") == "" {
		f.Default = v.number(s.perNode)
	}
	if address := v.get(s.address); address != "" {
		f.Seed = net.JoinHostPort(address, cmp.Or(v.get(s.port), defaultPort))
	}
	return f
}

// fromSlurm returns the settings of a task of a step, which srun has started. One task per node is
// one node; of several, the first runs the ranks of all.
func (v *variables) fromSlurm() *Config {
	if !job.InSlurmStep(v.get) {
		return nil
	}
	f := &Config{Scheduler: "Slurm", Conclusive: true}
	f.Nodes, f.Node = v.number("SLURM_STEP_NUM_NODES"), v.number("SLURM_NODEID")
	tasks, local := v.number("SLURM_STEP_NUM_TASKS"), v.number("SLURM_LOCALID")
	hosts, err := place.SlurmStep(v.get)
	switch {
	case v.err != nil:
	case err != nil:
		v.err = err
	case len(hosts) != f.Nodes || f.Node >= f.Nodes:
		v.err = fmt.Errorf("SLURM_STEP_NODELIST has %d hosts, SLURM_STEP_NUM_NODES is %d, SLURM_NODEID is %d", len(hosts),
			f.Nodes, f.Node)
	}
	if v.err != nil {
		return nil
	}
	if tasks > f.Nodes {
		f.Default, f.Idle = hosts[f.Node].Slots, local > 0
	}
	f.JobID = v.get("SLURM_JOB_ID") + "." + v.get("SLURM_STEP_ID")
	f.Seed = net.JoinHostPort(hosts[0].Name, strconv.Itoa(netconn.SeedPorts.Pick(f.JobID)))
	return f
}

// number reads a variable that must be set.
func (v *variables) number(name string) int {
	n, err := ParseCount(v.get(name), 0)
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("%s is %.40q, %w", name, v.get(name), err)
	}
	return n
}

// ParseCount reads a number of hosts, or the index of a host, of at least low: N, or N:N as for torchrun.
func ParseCount(text string, low int) (int, error) {
	first, last, isRange := strings.Cut(text, ":")
	n, err := strconv.Atoi(first)
	switch {
	case isRange && first != last:
		return 0, errors.New("want one number of hosts (hint: with --on-failure shrink or respawn a job continues " +
			"after the loss of some)")
	case err != nil || n < low || n > job.MaxRanks:
		return 0, fmt.Errorf("want a whole number from %d to %d", low, job.MaxRanks)
	}
	return n, nil
}
