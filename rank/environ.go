package rank

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/treerun/treerun/rank/job"
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
	name                             string
	rank, size, localRank, localSize string                             // names of variables; "" when it has none
	present                          func(get func(string) string) bool // whether it is this one; nil: rank or size is set
	jobID                            func(get func(string) string) string
}

// sources are the launchers, in the order in which they are looked for.
var sources = []source{
	{
		name: "treerun", rank: job.EnvRank, size: job.EnvSize, localRank: job.EnvLocalRank, localSize: job.EnvLocalSize,
		present: func(get func(string) string) bool { return get(job.EnvRank) != "" },
	},
	{
		name: "torchrun", rank: "RANK", size: "WORLD_SIZE", localRank: "LOCAL_RANK", localSize: "LOCAL_WORLD_SIZE",
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
		name: "Slurm", rank: "SLURM_PROCID", size: "SLURM_NTASKS", localRank: "SLURM_LOCALID",
		present: inSlurmStep,
		jobID:   joined("SLURM_JOB_ID", "SLURM_STEP_ID"),
	},
	{name: "LeaderWorkerSet", rank: "LWS_WORKER_INDEX", size: "LWS_GROUP_SIZE"},
	{
		// An indexed Job says the index only, and is not always one job of
		// ranks.
		name: "JobSet", rank: "JOB_COMPLETION_INDEX", size: job.EnvSize,
		present: func(get func(string) string) bool {
			return get("JOB_COMPLETION_INDEX") != "" && (get(job.EnvSize) != "" || get(job.EnvSeed) != "")
		},
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
		present := env.get(s.rank) != "" || env.get(s.size) != ""
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
	cfg := &config{localRank: -1, host: hostname()}
	var err error
	if cfg.size, err = number(env, s.size, s.rank, 1, job.MaxRanks); err != nil {
		return nil, err
	}
	if cfg.rank, err = number(env, s.rank, s.size, 0, cfg.size-1); err != nil {
		return nil, err
	}
	if env.get(s.localSize) != "" {
		if cfg.localSize, err = number(env, s.localSize, "", 1, cfg.size); err != nil {
			return nil, err
		}
	}
	if env.get(s.localRank) != "" {
		most := cfg.size - 1
		if cfg.localSize > 0 {
			most = cfg.localSize - 1
		}
		if cfg.localRank, err = number(env, s.localRank, "", 0, most); err != nil {
			return nil, err
		}
	}
	cfg.jobID = env.get(job.EnvJobID)
	if cfg.jobID == "" && s.jobID != nil {
		cfg.jobID = s.jobID(env.get)
	}
	if cfg.size == 1 {
		one, err := alone()
		if err == nil && cfg.jobID != "" {
			one.jobID = cfg.jobID
			err = checkJobID(cfg.jobID)
		}
		return one, err
	}
	if cfg.seed, err = seedFrom(env); err != nil {
		return nil, err
	}
	if cfg.jobID == "" {
		cfg.jobID = cfg.seed
	}
	if err := checkJobID(cfg.jobID); err != nil {
		return nil, err
	}
	cfg.secret, err = secretFrom(env, cfg.seed)
	return cfg, err
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

// seedFrom returns the address at which rank 0 is to listen.
func seedFrom(env environment) (string, error) {
	const remedy = "set " + job.EnvSeed + "=HOST:PORT on all ranks, with the host of rank 0 and a port that is free there"
	seed := env.get(job.EnvSeed)
	from, verb := job.EnvSeed, "is"
	if seed == "" && env.get("MASTER_ADDR") != "" {
		switch {
		case env.get(job.EnvRank) != "":
			// These are what treerun tells PyTorch; nobody listens there.
			return "", fmt.Errorf("neither %s nor %s is set: this process was not started by treerun itself, perhaps by one of its ranks, and is no part of that job; unset %s, or %s",
				job.EnvFD, job.EnvSeed, job.EnvRank, remedy)
		case strings.EqualFold(env.get("TORCHELASTIC_USE_AGENT_STORE"), "true"):
			return "", fmt.Errorf("the agent of torchrun listens at MASTER_PORT itself; %s", remedy)
		case env.get("MASTER_PORT") == "":
			return "", fmt.Errorf("MASTER_ADDR is set but MASTER_PORT is not; %s", remedy)
		}
		seed = net.JoinHostPort(env.get("MASTER_ADDR"), env.get("MASTER_PORT"))
		from, verb = "MASTER_ADDR and MASTER_PORT", "are"
	}
	if seed == "" {
		return "", fmt.Errorf("the ranks do not know where to meet; %s", remedy)
	}
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return "", fmt.Errorf("%s: %w; %s", from, err, remedy)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return "", fmt.Errorf("%s %s %q, want HOST:PORT with a port from 1 to 65535", from, verb, seed)
	}
	return seed, nil
}

// secretFrom returns the secret of the job: from the key file, or, for ranks
// that meet at a loopback address, from the user's own key, which is made when
// there is none.
func secretFrom(env environment, seed string) ([]byte, error) {
	if path := env.get(job.EnvKeyFile); path != "" {
		secret, err := readKey(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job.EnvKeyFile, err)
		}
		return secret, nil
	}
	host, _, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the ranks have no key; make one with `openssl rand -hex 32 > FILE; chmod 600 FILE`, give the file to all hosts, and set %s=FILE", job.EnvKeyFile)
	}
	dir, err := env.keyDir()
	if err != nil {
		return nil, fmt.Errorf("no folder for a key: %w; set %s", err, job.EnvKeyFile)
	}
	return userKey(dir)
}
