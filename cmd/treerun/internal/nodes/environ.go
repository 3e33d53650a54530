package nodes

import (
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/hostlist"
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

// FromEnvironment returns what the variables of a scheduler say; nil when there
// are none, or only one node. Seed and JobID may be empty in it.
func FromEnvironment(get func(name string) string) (*Found, error) {
	for _, read := range []func(func(string) string) (*Found, error){fromSlurm, fromLWS, fromTorch, fromIndexedJob} {
		f, err := read(get)
		if err != nil {
			return nil, fmt.Errorf("environment: %w", err)
		}
		if f != nil {
			return f, nil
		}
	}
	return nil, nil
}

// fromSlurm is for tasks of a step, which srun has started. One task per node is
// one node; of several, the first runs the ranks of all.
func fromSlurm(get func(string) string) (*Found, error) {
	step, err := strconv.ParseUint(get("SLURM_STEP_ID"), 10, 32)
	if err != nil || step >= 0xfffffff0 || get("SLURM_PROCID") == "" { // Slurm's own steps, as that of a batch script
		return nil, nil
	}
	f := &Found{Place: Place{From: "Slurm"}, Sure: true}
	var tasks, local int
	for _, v := range []struct {
		name string
		to   *int
	}{{"SLURM_STEP_NUM_NODES", &f.Nodes}, {"SLURM_NODEID", &f.Node}, {"SLURM_STEP_NUM_TASKS", &tasks}, {"SLURM_LOCALID", &local}} {
		if *v.to, err = number(get, v.name); err != nil {
			return nil, err
		}
	}
	hosts, err := hostlist.Slurm(get("SLURM_STEP_NODELIST"), get("SLURM_STEP_TASKS_PER_NODE"))
	if err != nil {
		return nil, fmt.Errorf("SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE: %w", err)
	}
	if len(hosts) != f.Nodes || f.Node >= f.Nodes {
		return nil, fmt.Errorf("SLURM_STEP_NODELIST has %d hosts, SLURM_STEP_NUM_NODES is %d, SLURM_NODEID is %d", len(hosts), f.Nodes, f.Node)
	}
	if tasks > f.Nodes {
		f.PerNode, f.Idle = hosts[f.Node].Slots, local > 0
	}
	f.JobID = get("SLURM_JOB_ID") + "." + get("SLURM_STEP_ID")
	f.Seed = net.JoinHostPort(hosts[0].Name, port(f.JobID))
	return f, nil
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
func fromLWS(get func(string) string) (*Found, error) {
	if get("LWS_GROUP_SIZE") == "" && get("LWS_WORKER_INDEX") == "" {
		return nil, nil
	}
	f := &Found{Place: Place{From: "LeaderWorkerSet"}, Sure: true}
	var err error
	if f.Nodes, err = number(get, "LWS_GROUP_SIZE"); err != nil {
		return nil, err
	}
	if f.Node, err = number(get, "LWS_WORKER_INDEX"); err != nil {
		return nil, err
	}
	if leader := get("LWS_LEADER_ADDRESS"); leader != "" {
		f.Seed = net.JoinHostPort(leader, defaultPort)
	}
	return f, nil
}

// fromTorch is for the variables that set options of torchrun, and for the usual
// ones without a prefix.
func fromTorch(get func(string) string) (*Found, error) {
	for _, prefix := range []string{"PET_", ""} {
		if get(prefix+"NNODES") == "" || get(prefix+"NODE_RANK") == "" {
			continue
		}
		f := &Found{Place: Place{From: "torchrun's variables"}}
		var err error
		if f.Nodes, err = number(get, prefix+"NNODES"); err != nil {
			return nil, err
		}
		if f.Node, err = number(get, prefix+"NODE_RANK"); err != nil {
			return nil, err
		}
		if v := get(prefix + "NPROC_PER_NODE"); v != "" && strings.Trim(v, "0123456789") == "" { // else gpu, cpu, auto
			if f.PerNode, err = number(get, prefix+"NPROC_PER_NODE"); err != nil {
				return nil, err
			}
		}
		if address := get(prefix + "MASTER_ADDR"); address != "" {
			p := get(prefix + "MASTER_PORT")
			if p == "" {
				p = defaultPort
			}
			f.Seed = net.JoinHostPort(address, p)
		}
		f.JobID = get(prefix + "RDZV_ID")
		return f, nil
	}
	return nil, nil
}

// fromIndexedJob is for pods of an indexed Job or a JobSet, which know only which
// one they are.
func fromIndexedJob(get func(string) string) (*Found, error) {
	if get("JOB_COMPLETION_INDEX") == "" {
		return nil, nil
	}
	f := &Found{Place: Place{From: "an indexed Job"}}
	var err error
	f.Node, err = number(get, "JOB_COMPLETION_INDEX")
	return f, err
}

// number reads a variable that must be there.
func number(get func(string) string, name string) (int, error) {
	text := get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > MaxNodes {
		return 0, fmt.Errorf("%s is %.40q, want a number up to %d", name, text, MaxNodes)
	}
	return n, nil
}
