package nodes

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/place"
)

// Found is what the environment says of this process.
type Found struct {
	Place
	PerNode int  // ranks that this node shall run, 0: it does not say
	Idle    bool // another treerun of this host runs all of its ranks
	// Sure is false for variables that may be there for another purpose: they count
	// only for who asks for several nodes.
	Sure bool
}

// variables are those of the environment, and what is wrong with the first of them that
// was read and could not be.
type variables struct {
	get func(name string) string
	err error
}

// FromEnvironment returns what the variables of a scheduler say; nil when there
// are none, or only one node. Seed and JobID may be empty in it.
func FromEnvironment(get func(name string) string) (*Found, error) {
	for _, read := range []func(*variables) *Found{fromSlurm, fromLWS, fromTorch, fromIndexedJob} {
		v := &variables{get: get}
		f := read(v)
		if v.err != nil {
			return nil, fmt.Errorf("environment: %w", v.err)
		}
		if f != nil {
			return f, nil
		}
	}
	return nil, nil
}

// fromSlurm is for tasks of a step, which srun has started. One task per node is
// one node; of several, the first runs the ranks of all.
func fromSlurm(v *variables) *Found {
	step, err := strconv.ParseUint(v.get("SLURM_STEP_ID"), 10, 32)
	if err != nil || step >= 0xfffffff0 || v.get("SLURM_PROCID") == "" { // Slurm's own steps, as that of a batch script
		return nil
	}
	f := &Found{Place: Place{From: "Slurm"}, Sure: true}
	f.Nodes, f.Node = v.number("SLURM_STEP_NUM_NODES"), v.number("SLURM_NODEID")
	tasks, local := v.number("SLURM_STEP_NUM_TASKS"), v.number("SLURM_LOCALID")
	hosts, err := place.Slurm(v.get("SLURM_STEP_NODELIST"), v.get("SLURM_STEP_TASKS_PER_NODE"))
	switch {
	case v.err != nil:
	case err != nil:
		v.err = fmt.Errorf("SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE: %w", err)
	case len(hosts) != f.Nodes || f.Node >= f.Nodes:
		v.err = fmt.Errorf("SLURM_STEP_NODELIST has %d hosts, SLURM_STEP_NUM_NODES is %d, SLURM_NODEID is %d", len(hosts),
			f.Nodes, f.Node)
	}
	if v.err != nil {
		return nil
	}
	if tasks > f.Nodes {
		f.PerNode, f.Idle = hosts[f.Node].Slots, local > 0
	}
	f.JobID = v.get("SLURM_JOB_ID") + "." + v.get("SLURM_STEP_ID")
	f.Seed = net.JoinHostPort(hosts[0].Name, port(f.JobID))
	return f
}

// port returns a port for a job: schedulers give none. It lies below those that
// Linux gives to connections.
func port(jobID string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(jobID)) // never fails
	return strconv.Itoa(20000 + int(h.Sum32()%12000))
}

// defaultPort is the port of a seed of which only the host is known.
const defaultPort = "29517"

// fromLWS is for pods of a LeaderWorkerSet.
func fromLWS(v *variables) *Found {
	if v.get("LWS_GROUP_SIZE") == "" && v.get("LWS_WORKER_INDEX") == "" {
		return nil
	}
	f := &Found{Place: Place{From: "LeaderWorkerSet"}, Sure: true}
	f.Nodes, f.Node = v.number("LWS_GROUP_SIZE"), v.number("LWS_WORKER_INDEX")
	if leader := v.get("LWS_LEADER_ADDRESS"); leader != "" {
		f.Seed = net.JoinHostPort(leader, defaultPort)
	}
	return f
}

// fromTorch is for the variables that set options of torchrun, and for the usual
// ones without a prefix.
func fromTorch(v *variables) *Found {
	for _, prefix := range []string{"PET_", ""} {
		if v.get(prefix+"NNODES") == "" || v.get(prefix+"NODE_RANK") == "" {
			continue
		}
		f := &Found{Place: Place{From: "torchrun's variables"}}
		f.Nodes, f.Node = v.number(prefix+"NNODES"), v.number(prefix+"NODE_RANK")
		if n := v.get(prefix + "NPROC_PER_NODE"); n != "" && strings.Trim(n, "0123456789") == "" { // else gpu, cpu, auto
			f.PerNode = v.number(prefix + "NPROC_PER_NODE")
		}
		if address := v.get(prefix + "MASTER_ADDR"); address != "" {
			f.Seed = net.JoinHostPort(address, cmp.Or(v.get(prefix+"MASTER_PORT"), defaultPort))
		}
		f.JobID = v.get(prefix + "RDZV_ID")
		return f
	}
	return nil
}

// fromIndexedJob is for pods of an indexed Job or a JobSet, which know only which
// one they are.
func fromIndexedJob(v *variables) *Found {
	if v.get("JOB_COMPLETION_INDEX") == "" {
		return nil
	}
	return &Found{Place: Place{From: "an indexed Job", Node: v.number("JOB_COMPLETION_INDEX")}}
}

// number reads a variable that must be there.
func (v *variables) number(name string) int {
	text := v.get(name)
	n, err := strconv.Atoi(text)
	if (err != nil || n < 0 || n > MaxNodes) && v.err == nil {
		v.err = fmt.Errorf("%s is %.40q, want a number up to %d", name, text, MaxNodes)
	}
	return n
}
