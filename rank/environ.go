package rank

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
)

// This file holds all that the package takes from the environment.

// environment is where variables are looked up.
type environment interface {
	// get returns a variable, "" when it is not set.
	get(name string) string
	// takeJobFD returns TREERUN_JOB_FD and unsets it, so that children of this
	// process do not take themselves for the rank.
	takeJobFD() (string, bool)
	// keyDir returns the folder for a user's own key.
	keyDir() (string, error)
}

type osEnvironment struct{}

func (osEnvironment) get(name string) string { return os.Getenv(name) }

func (osEnvironment) takeJobFD() (string, bool) {
	fd, ok := os.LookupEnv(job.EnvFD)
	os.Unsetenv(job.EnvFD)
	return fd, ok
}

func (osEnvironment) keyDir() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "treerun"), err
}

// source is a launcher that tells ranks their place in environment variables.
type source struct {
	name string

	// Names of variables, between spaces: the first that is set counts. "" when the
	// launcher has none.
	rank, size, localRank, localSize, epoch string

	present func(get func(string) string) bool // whether it is this one; nil: rank or size is set
	oneHost func(get func(string) string) bool // whether all ranks are on one host; nil: it does not say
	jobID   func(get func(string) string) string
	seed    func(get func(string) string) (host string, err error) // where rank 0 runs; nil: it does not say
}

// sources are the launchers, in the order in which they are looked for.
var sources = []source{
	{
		name: "treerun", rank: job.EnvRank, size: job.EnvSize, localRank: job.EnvLocalRank, localSize: job.EnvLocalSize,
		epoch:   job.EnvEpoch,
		present: func(get func(string) string) bool { return get(job.EnvRank) != "" },
	},
	{
		name: "torchrun", rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE",
		epoch: "TORCHELASTIC_RESTART_COUNT",
		jobID: joined("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
	},
	{
		name: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", size: "OMPI_COMM_WORLD_SIZE",
		localRank: "OMPI_COMM_WORLD_LOCAL_RANK", localSize: "OMPI_COMM_WORLD_LOCAL_SIZE",
		jobID: joined("PMIX_NAMESPACE"),
	},
	{
		name: "PMI", rank: "PMI_RANK", size: "PMI_SIZE", localRank: "MPI_LOCALRANKID", localSize: "MPI_LOCALNRANKS",
		jobID: joined("PMI_JOBID"),
	},
	{
		name: "Slurm", rank: "SLURM_PROCID", size: "SLURM_STEP_NUM_TASKS SLURM_NTASKS", localRank: "SLURM_LOCALID",
		epoch:   "SLURM_RESTART_COUNT",
		present: inSlurmStep,
		oneHost: func(get func(string) string) bool { return get("SLURM_STEP_NUM_NODES") == "1" },
		jobID:   joined("SLURM_JOB_ID", "SLURM_STEP_ID"),
		seed:    firstOfStep,
	},
	{
		name: "LeaderWorkerSet", rank: "LWS_WORKER_INDEX", size: "LWS_GROUP_SIZE",
		jobID: joined("LWS_LEADER_ADDRESS"),
		seed:  hostIn("LWS_LEADER_ADDRESS"),
	},
	{
		// An indexed Job says the index only, and is not always one job of
		// ranks. The names with JOBSET are those that manifests usually give to
		// the labels and annotations of a JobSet.
		name: "JobSet", rank: "JOB_GLOBAL_INDEX JOB_COMPLETION_INDEX", size: job.EnvSize,
		epoch: "JOBSET_RESTART_ATTEMPT",
		present: func(get func(string) string) bool {
			return get("JOB_COMPLETION_INDEX") != "" &&
				(get(job.EnvSize) != "" || get(job.EnvSeed) != "" || get("JOBSET_COORDINATOR") != "")
		},
		jobID: joined("JOBSET_NAME", "JOBSET_RESTART_ATTEMPT"),
		seed:  hostIn("JOBSET_COORDINATOR"),
	},
	{name: "treerun", rank: job.EnvRank, size: job.EnvSize}, // a size without a rank
}

// inSlurmStep tells a task that srun started from a batch script, which has
// most of the variables, too. Steps with numbers from 0xfffffff0 are Slurm's
// own: batch script, interactive shell.
func inSlurmStep(get func(string) string) bool {
	step, err := strconv.ParseUint(get("SLURM_STEP_ID"), 10, 32)
	return err == nil && step < 0xfffffff0 && get("SLURM_PROCID") != ""
}

// firstSet returns the first of names that is set, else the last one.
func firstSet(get func(string) string, names string) string {
	all := strings.Fields(names)
	for _, name := range all {
		if get(name) != "" {
			return name
		}
	}
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// joined returns a function that gives the values of variables, with a dot
// between them, or "" when the first is not set.
func joined(names ...string) func(get func(string) string) string {
	return func(get func(string) string) string {
		if get(names[0]) == "" {
			return ""
		}
		var values []string
		for _, n := range names {
			values = append(values, get(n))
		}
		return strings.Join(values, ".")
	}
}

// fromEnvironment returns what another launcher says; nil when there is none.
func fromEnvironment(env environment) (*config, error) {
	for _, s := range sources {
		present := env.get(firstSet(env.get, s.rank)) != "" || env.get(firstSet(env.get, s.size)) != ""
		if s.present != nil {
			present = s.present(env.get)
		}
		if present {
			cfg, err := s.config(env)
			if err != nil {
				return nil, fmt.Errorf("environment of %s: %w", s.name, err)
			}
			return cfg, nil
		}
	}
	return nil, nil
}

func (s *source) config(env environment) (*config, error) {
	cfg := &config{localRank: -1, host: hostname(), device: env.get(job.EnvDevice)}
	if err := errors.Join(s.place(cfg, env), checkDevice(cfg.device)); err != nil {
		return nil, err
	}
	var err error
	cfg.jobID = env.get(job.EnvJobID)
	if cfg.jobID == "" && s.jobID != nil {
		cfg.jobID = s.jobID(env.get)
	}
	if cfg.size == 1 {
		one, err := alone(env)
		if err == nil && cfg.jobID != "" {
			one.jobID = cfg.jobID
			err = checkJobID(cfg.jobID)
		}
		return one, err
	}
	cfg.settingsFrom(env)
	seed, err := s.seedFrom(cfg, env)
	if err != nil {
		return nil, err
	}
	cfg.seeds = []string{seed}
	if cfg.jobID == "" {
		cfg.jobID = seed
	}
	if err := checkJobID(cfg.jobID); err != nil {
		return nil, err
	}
	cfg.secret, err = secretFrom(env, seed)
	return cfg, err
}

// place reads who this rank is.
func (s *source) place(cfg *config, env environment) (err error) {
	rank, size := firstSet(env.get, s.rank), firstSet(env.get, s.size)
	if cfg.size, err = number(env, size, rank, 1, job.MaxRanks); err != nil {
		return err
	}
	if cfg.rank, err = number(env, rank, size, 0, cfg.size-1); err != nil {
		return err
	}
	if env.get(s.localSize) != "" {
		if cfg.localSize, err = number(env, s.localSize, "", 1, cfg.size); err != nil {
			return err
		}
	}
	if s.oneHost != nil && s.oneHost(env.get) {
		cfg.localSize = cfg.size
	}
	if env.get(s.localRank) != "" {
		most := cfg.size - 1
		if cfg.localSize > 0 {
			most = cfg.localSize - 1
		}
		if cfg.localRank, err = number(env, s.localRank, "", 0, most); err != nil {
			return err
		}
	}
	if name := firstSet(env.get, job.EnvEpoch+" "+s.epoch); env.get(name) != "" {
		cfg.epoch, err = number(env, name, "", 0, job.MaxEpoch)
	}
	return err
}

func checkDevice(uuid string) error {
	if err := job.CheckDevice(uuid); err != nil {
		return fmt.Errorf("%w; %s sets it", err, job.EnvDevice)
	}
	return nil
}

func checkJobID(id string) error {
	if err := job.CheckID(id); err != nil {
		return fmt.Errorf("%w; %s sets it", err, job.EnvJobID)
	}
	return nil
}

// number reads a variable that must be a number from least to most. other is a
// variable that makes no sense without it.
func number(env environment, name, other string, least, most int) (int, error) {
	text := env.get(name)
	if text == "" {
		return 0, fmt.Errorf("%s is set but %s is not", other, name)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%.40q is not a number", name, text)
	}
	if n < least || n > most {
		return 0, fmt.Errorf("%s=%d, want %d..%d", name, n, least, most)
	}
	return n, nil
}
