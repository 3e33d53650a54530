package environ

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
)

const remedy = "set " + job.EnvSeed + "=HOST:PORT on all ranks, with the host of rank 0 and a port that is free there"

// seedFrom returns the address at which rank 0 listens: from the user's variable, else derived from the launcher's
// variables.
func (l *launcher) seedFrom(j *Job, get func(string) string) (string, error) {
	master, masterPort := get("MASTER_ADDR"), get("MASTER_PORT")
	switch seed := get(job.EnvSeed); {
	case seed != "":
		return seed, checkSeed(seed, job.EnvSeed+" is")
	case master != "" && get(job.EnvRank) != "":
		// These are the variables that treerun sets for PyTorch; no process listens at their address.
		return "", fmt.Errorf("neither %s nor %s is set: this process was not started by treerun itself, perhaps by one "+
			"of its ranks, and is no part of that job; unset %s, or %s", job.EnvFD, job.EnvSeed, job.EnvRank, remedy)
	case master != "" && strings.EqualFold(get("TORCHELASTIC_USE_AGENT_STORE"), "true") && j.JobID != "":
		return j.derivedSeed(master), nil // the agent of torchrun listens at MASTER_PORT itself
	case master != "" && masterPort == "":
		return "", fmt.Errorf("MASTER_ADDR is set but MASTER_PORT is not; %s", remedy)
	case master != "":
		seed = net.JoinHostPort(master, masterPort)
		return seed, checkSeed(seed, "MASTER_ADDR and MASTER_PORT are")
	case j.JobID != "" && j.LocalSize == j.Size:
		return j.derivedSeed("127.0.0.1"), nil
	}
	name := firstSet(get, l.seed)
	hosts, err := numbers.ExpandNames(numbers.SplitNames(get(name))[0], job.MaxRanks)
	if err != nil {
		return "", fmt.Errorf("%s=%.60q is no list of nodes; %s", name, get(name), remedy)
	}
	if hosts[0] == "" {
		return "", fmt.Errorf("the ranks do not know where rank 0 listens; %s", remedy)
	}
	return j.derivedSeed(hosts[0]), nil
}

// checkSeed reports an error unless seed is a HOST:PORT; what names its source.
func checkSeed(seed, what string) error {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		name, _, _ := strings.Cut(what, " is")
		return fmt.Errorf("%s: %w; %s", name, err, remedy)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return fmt.Errorf("%s %q, want HOST:PORT with a port from 1 to 65535", what, seed)
	}
	return nil
}

// derivedSeed returns an address of a host with a port of the range that the user allows. All ranks compute the same
// one.
func (j *Job) derivedSeed(host string) string {
	among := netconn.SeedPorts
	if p, err := netconn.ParsePorts(j.Settings[SettingPorts]); err == nil {
		among = p
	}
	return net.JoinHostPort(host, strconv.Itoa(among.Pick("seed of "+j.JobID)))
}

// SeedIsLoopback reports whether the ranks meet at a loopback address. A name other than localhost may well be that of
// rank 0's host, to which Debian gives the address 127.0.1.1 there.
func (j *Job) SeedIsLoopback() bool {
	host, _, _ := net.SplitHostPort(j.Seed)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
