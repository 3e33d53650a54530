package rank

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
)

// seedFrom returns the address at which rank 0 is to listen: what the user says,
// else what follows from the launcher's variables.
func (s *source) seedFrom(cfg *config, env environment) (string, error) {
	const remedy = "set " + job.EnvSeed + "=HOST:PORT on all ranks, with the host of rank 0 and a port that is free there"
	seed := env.get(job.EnvSeed)
	from, verb := job.EnvSeed, "is"
	if seed == "" && env.get("MASTER_ADDR") != "" {
		switch {
		case env.get(job.EnvRank) != "":
			// These are what treerun tells PyTorch; nobody listens there.
			return "", fmt.Errorf("neither %s nor %s is set: this process was not started by treerun itself, perhaps by one "+
				"of its ranks, and is no part of that job; unset %s, or %s",
				job.EnvFD, job.EnvSeed, job.EnvRank, remedy)
		case strings.EqualFold(env.get("TORCHELASTIC_USE_AGENT_STORE"), "true") && cfg.jobID != "":
			// The agent of torchrun listens at MASTER_PORT itself.
			return net.JoinHostPort(env.get("MASTER_ADDR"), cfg.derivedPort()), nil
		case env.get("MASTER_PORT") == "":
			return "", fmt.Errorf("MASTER_ADDR is set but MASTER_PORT is not; %s", remedy)
		}
		seed = net.JoinHostPort(env.get("MASTER_ADDR"), env.get("MASTER_PORT"))
		from, verb = "MASTER_ADDR and MASTER_PORT", "are"
	}
	if seed == "" && cfg.jobID != "" && cfg.localSize == cfg.size {
		return net.JoinHostPort(loopback4.String(), cfg.derivedPort()), nil
	}
	if seed == "" && s.seed != nil {
		host, err := s.seed(env.get)
		if err != nil {
			return "", fmt.Errorf("%w; %s", err, remedy)
		}
		if host != "" {
			return net.JoinHostPort(host, cfg.derivedPort()), nil
		}
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

// derivedPort returns a port for rank 0 that all ranks find for themselves: one
// of the range that the user allows, else of one below the ports that Linux gives
// to connections.
func (c *config) derivedPort() string {
	among := netconn.PortRange{Lo: 20000, Hi: 31999}
	if p, err := netconn.ParsePorts(c.settings[settingPorts]); err == nil {
		among = p
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte("seed of " + c.jobID)) // never fails
	return strconv.Itoa(among.Lo + int(h.Sum32()%uint32(among.Count())))
}

// hostIn returns a function that gives the host in a variable.
func hostIn(name string) func(get func(string) string) (string, error) {
	return func(get func(string) string) (string, error) { return get(name), nil }
}

// firstOfStep returns the first host of a step of Slurm, where rank 0 runs: the
// first name that a list such as "n[01-04,9],gpu7" stands for.
func firstOfStep(get func(string) string) (string, error) {
	name := firstSet(get, "SLURM_STEP_NODELIST SLURM_JOB_NODELIST")
	rest, host := get(name), ""
	for rest != "" {
		end := strings.IndexAny(rest, "[,")
		if end < 0 {
			return host + rest, nil
		}
		host += rest[:end]
		if rest[end] == ',' {
			break
		}
		inner, after, found := strings.Cut(rest[end+1:], "]")
		first, _, _ := strings.Cut(inner, ",")
		first, _, _ = strings.Cut(first, "-")
		if !found || first == "" || strings.Trim(first, "0123456789") != "" {
			return "", fmt.Errorf("%s=%.60q is no list of nodes", name, get(name))
		}
		host, rest = host+first, after
	}
	return host, nil
}

// secretFrom returns the secret of the job: from the key file, or from the user's
// own key, which is made when there is none and the ranks meet at a loopback
// address. On several hosts it must be there, the same on all.
func secretFrom(env environment, seed string) ([]byte, error) {
	if path := env.get(job.EnvKeyFile); path != "" {
		secret, err := job.ReadKeyFile(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job.EnvKeyFile, err)
		}
		return secret, nil
	}
	host, _, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	dir, err := env.keyDir()
	if err != nil {
		return nil, fmt.Errorf("no folder for a key: %w; set %s", err, job.EnvKeyFile)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return userKey(dir)
	}
	path := filepath.Join(dir, "key")
	key, err := job.ReadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("the ranks have no key; make one with `openssl rand -hex 32 > FILE; chmod 600 FILE`, give the "+
			"file to all hosts as %s, or set %s=FILE", path, job.EnvKeyFile)
	}
	return key, err
}
