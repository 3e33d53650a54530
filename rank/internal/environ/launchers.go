package environ

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
)

// launcher describes a launcher that passes the rank, the size and the like to ranks in variables. Its fields are names
// of variables, separated by spaces: the first one that is set counts. A field is "" when the launcher has no such
// variable.
type launcher struct {
	name string

	rank, size, localRank, localSize, epoch string

	hosts string // the number of hosts
	jobID string // all of these, with dots between them, when the first is set
	seed  string // the host of rank 0, or a list of hosts as Slurm writes it, of which it is the first

	is func(get func(string) string) bool // reports whether it is this launcher; nil: rank or size is set
}

// launchers are in the order of their checks.
var launchers = []launcher{
	{
		name: "treerun", rank: job.EnvRank, size: job.EnvSize, localRank: job.EnvLocalRank, localSize: job.EnvLocalSize,
		epoch: job.EnvEpoch,
		is:    func(get func(string) string) bool { return get(job.EnvRank) != "" },
	},
	{
		name: "torchrun", rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE",
		epoch: "TORCHELASTIC_RESTART_COUNT", jobID: "TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT",
	},
	{
		name: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		localRank: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE", jobID: "PMIX_NAMESPACE",
	},
	{
		name: "PMI", rank: "PMI_RANK", size: "PMI_SIZE", localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS",
		jobID: "PMI_JOBID",
	},
	{
		name: "Slurm", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS SLURM_NTASKS", localRank: "SLURM_LOCALID",
		epoch: "SLURM_RESTART_COUNT", hosts: "SLURM_STEP_NUM_NODES", jobID: "SLURM_JOB_ID SLURM_STEP_ID",
		seed: "SLURM_STEP_NODELIST SLURM_JOB_NODELIST", is: job.InSlurmStep,
	},
	{
		name: "LeaderWorkerSet", rank: "LWS_WORKER_INDEX", size: "LWS_GROUP_SIZE",
		jobID: "LWS_LEADER_ADDRESS", seed: "LWS_LEADER_ADDRESS",
	},
	{
		// An indexed Job sets only the index, and is not always one job of ranks. The names with JOBSET are
		// those that manifests usually give to the labels and annotations of a JobSet.
		name: "JobSet", rank: "JOB_GLOBAL_INDEX JOB_COMPLETION_INDEX", size: job.EnvSize,
		epoch: "JOBSET_RESTART_ATTEMPT", jobID: "JOBSET_NAME JOBSET_RESTART_ATTEMPT", seed: "JOBSET_COORDINATOR",
		is: func(get func(string) string) bool {
			return get("JOB_COMPLETION_INDEX") != "" && get(firstSet(get, job.EnvSize, job.EnvSeed, "JOBSET_COORDINATOR")) != ""
		},
	},
	{name: "treerun", rank: job.EnvRank, size: job.EnvSize}, // a size without a rank
}

// firstSet returns the first variable that is set, else the last one.
func firstSet(get func(string) string, names ...string) (name string) {
	for _, list := range names {
		for _, name = range strings.Fields(list) {
			if get(name) != "" {
				return name
			}
		}
	}
	return name
}

func (l *launcher) present(get func(string) string) bool {
	if l.is != nil {
		return l.is(get)
	}
	return get(firstSet(get, l.rank)) != "" || get(firstSet(get, l.size)) != ""
}

// job returns the job as the launcher describes it.
func (l *launcher) job(get func(string) string) (*Job, error) {
	j := &Job{File: job.File{LocalRank: -1, Host: hostname(), Device: get(job.EnvDevice), JobID: l.id(get)}}
	if err := l.place(j, get); err != nil {
		return nil, err
	}
	if j.Size == 1 {
		return singleRank(get, j.JobID)
	}
	if runtime.GOOS != "linux" {
		return nil, job.ErrSystem
	}
	j.settingsFrom(get)
	var err error
	if j.Seed, err = l.seedFrom(j, get); err != nil {
		return nil, err
	}
	if j.JobID == "" {
		j.JobID = j.Seed
	}
	if err = j.check(); err == nil {
		j.Secret, err = secretFrom(get, j)
	}
	return j, err
}

// id returns the id of the job, "" where neither user nor launcher gives one.
func (l *launcher) id(get func(string) string) string {
	if id := get(job.EnvJobID); id != "" {
		return id
	}
	var values []string
	for _, name := range strings.Fields(l.jobID) {
		values = append(values, get(name))
	}
	if len(values) == 0 || values[0] == "" {
		return ""
	}
	return strings.Join(values, ".")
}

// place reads the rank, the size, the local rank and size, and the epoch.
func (l *launcher) place(j *Job, get func(string) string) error {
	v := reader{get: get}
	rank, size := firstSet(get, l.rank), firstSet(get, l.size)
	j.Size = v.required(size, rank, 1, job.MaxRanks)
	j.Rank = v.required(rank, size, 0, j.Size-1)
	j.LocalSize = v.optional(l.localSize, 0, 1, j.Size)
	if l.hosts != "" && get(l.hosts) == "1" {
		j.LocalSize = j.Size
	}
	here := j.LocalSize
	if here == 0 {
		here = j.Size
	}
	j.LocalRank = v.optional(l.localRank, -1, 0, here-1)
	j.Epoch = v.optional(firstSet(get, job.EnvEpoch, l.epoch), 0, 0, job.MaxEpoch)
	return v.err
}

// reader reads variables that must be numbers, and keeps the first error.
type reader struct {
	get func(string) string
	err error
}

// required reads a variable that must be set, because another one is.
func (v *reader) required(name, other string, low, high int) int {
	if v.err == nil && v.get(name) == "" {
		v.err = fmt.Errorf("%s is set but %s is not", other, name)
	}
	return v.optional(name, 0, low, high)
}

// optional reads a variable that need not be set.
func (v *reader) optional(name string, unset, low, high int) int {
	text := v.get(name)
	if v.err != nil || text == "" {
		return unset
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		v.err = fmt.Errorf("%s=%.40q is not a number", name, text)
	case n < low || n > high:
		v.err = fmt.Errorf("%s=%d, want %d..%d", name, n, low, high)
	}
	return n
}
