//go:build linux

package place

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/safefile"
)

// allocation describes how a scheduler passes its hosts to a job.
type allocation struct {
	scheduler string
	variable  string // holds the hosts, or the name of a file with them; it is set in an allocation
	isFile    bool

	// columns matches a host and its slots in data that is no list of hosts for Read; nil: it is one.
	columns *regexp.Regexp

	slots []string // variables with the slots of the hosts, as Slurm writes them: the first that is set counts

	// components is the infix after the name of a variable of one component of a heterogeneous job, without the
	// component's number; variable has the number of components. "": the job is no such job.
	components string

	// agent is the scheduler's command that starts a program on {host} within the job; nil: none serves.
	agent []string

	unused func(get func(string) string) bool // this process is not the one that uses the allocation
}

// slurmStep describes the variables that srun sets for a task.
var slurmStep = allocation{scheduler: "Slurm", variable: "SLURM_STEP_NODELIST",
	slots: []string{"SLURM_STEP_TASKS_PER_NODE"}}

// slurmSlots are the variables with the slots of an allocation of Slurm.
var slurmSlots = []string{"SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"}

// srun starts one step for each host, beside the batch script, which holds all of the allocation. The agent gives cores
// to its ranks itself.
var srun = []string{"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist={host}", "--cpu-bind=none", "--quiet"}

var blaunch = []string{"blaunch", "{host}"}

// allocations are in the order of their checks. A script in a heterogeneous job of Slurm also has the variables of its
// first component as those of a job.
var allocations = []allocation{
	{scheduler: "Slurm", variable: "SLURM_HET_SIZE", unused: job.InSlurmStep, slots: slurmSlots,
		components: "_HET_GROUP_"},
	{scheduler: "Slurm", variable: "SLURM_PACK_SIZE", unused: job.InSlurmStep, slots: slurmSlots, // before Slurm 20.02
		components: "_PACK_GROUP_"},
	{scheduler: "Slurm", variable: "SLURM_JOB_NODELIST", unused: job.InSlurmStep, slots: slurmSlots, agent: srun},
	{scheduler: "Slurm", variable: "SLURM_NODELIST", unused: job.InSlurmStep, slots: slurmSlots, agent: srun},
	{scheduler: "PBS", variable: "PBS_NODEFILE", isFile: true, agent: []string{"pbs_tmrsh", "{host}"}},
	{scheduler: "LSF", variable: "LSB_DJOB_HOSTFILE", isFile: true, agent: blaunch},
	{scheduler: "LSF", variable: "LSB_MCPU_HOSTS", columns: regexp.MustCompile(`(\S+)\s*(\S*)\s*`), agent: blaunch},
	{scheduler: "SGE", variable: "PE_HOSTFILE", isFile: true, agent: []string{"qrsh", "-inherit", "{host}"},
		columns: regexp.MustCompile(`(?m)^[ \t]*(\S+)[ \t]*(\S*).*\n?`)},
	{scheduler: "MPIJob", variable: "OMPI_MCA_orte_default_hostfile", isFile: true, unused: notMPILauncher},
	{scheduler: "MPIJob", variable: "HYDRA_HOST_FILE", isFile: true, unused: notMPILauncher},
	{scheduler: "MPIJob", variable: "I_MPI_HYDRA_HOST_FILE", isFile: true, unused: notMPILauncher},
}

// notMPILauncher reports whether this process is not in the launcher of an MPIJob of Kubeflow's MPI operator. The
// variables with hosts are those of mpirun, and users may set them for it.
func notMPILauncher(get func(string) string) bool { return get("K_MPI_JOB_ROLE") != "launcher" }

// SlurmStep returns the hosts of the step of Slurm that this process is a task of.
func SlurmStep(get func(string) string) ([]ListedHost, error) { return slurmStep.hosts(get) }

// currentAllocation returns the allocation of this process, nil for none, and its hosts.
func currentAllocation(get func(string) string) (*allocation, []ListedHost, error) {
	for i := range allocations {
		a := &allocations[i]
		if get(a.variable) != "" && (a.unused == nil || !a.unused(get)) {
			hosts, err := a.hosts(get)
			if name, err := os.Hostname(); err == nil {
				stripOwnDomain(hosts, name)
			}
			return a, hosts, err
		}
	}
	return nil, nil, nil
}

// stripOwnDomain removes the domain from the host of this name, where a scheduler has added one. Where hosts of several
// domains have the name, it changes none.
func stripOwnDomain(hosts []ListedHost, name string) {
	self := -1
	for i, h := range hosts {
		if short, _, _ := strings.Cut(h.Name, "."); !strings.EqualFold(short, name) {
			continue
		} else if self >= 0 {
			return
		}
		self = i
	}
	if self >= 0 {
		hosts[self].Name = name
	}
}

// hosts returns the hosts, from the variable or the file.
func (a *allocation) hosts(get func(string) string) ([]ListedHost, error) {
	if a.components != "" {
		return a.componentHosts(get)
	}
	name, data := a.variable, []byte(get(a.variable))
	if a.isFile {
		path, err := string(data), error(nil)
		if data, err = safefile.Read(path, maxFile); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		name += ": " + path
	}
	return a.read(name, data, get)
}

// componentHosts returns the hosts of all components of a heterogeneous job.
func (a *allocation) componentHosts(get func(string) string) ([]ListedHost, error) {
	n, err := parseCount("components", get(a.variable), 1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.variable, err)
	}
	all := hostList{index: make(map[string]int)}
	for i := range n {
		variable := func(name string) string { return fmt.Sprint(name, a.components, i) }
		part := allocation{variable: variable("SLURM_JOB_NODELIST"),
			slots: []string{variable(a.slots[0]), variable(a.slots[1])}}
		if i == 0 {
			part.slots = append(part.slots, a.slots...)
		}
		if get(part.variable) == "" {
			return nil, fmt.Errorf("%s is %d, but %s is not set", a.variable, n, part.variable)
		}
		hosts, err := part.hosts(get)
		for k := 0; k < len(hosts) && err == nil; k++ {
			err = all.add(hosts[k])
		}
		if err != nil {
			return nil, err
		}
	}
	return all.hosts, nil
}

// read returns the hosts in data, with their slots. name is for errors.
func (a *allocation) read(name string, data []byte, get func(string) string) ([]ListedHost, error) {
	if a.columns != nil {
		data = a.columns.ReplaceAll(data, []byte("$1 slots=$2\n"))
	}
	hosts, err := Read(name, data)
	if err != nil {
		return nil, err
	}
	for _, slots := range a.slots {
		if text := get(slots); text != "" {
			if err := setSlots(hosts, text); err != nil {
				return nil, fmt.Errorf("%s, with the slots of %s: %w", slots, a.variable, err)
			}
			break
		}
	}
	return hosts, nil
}
