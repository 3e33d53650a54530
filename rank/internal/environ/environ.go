// Package environ determines the job that this process was started in: from the job file of treerun's launcher, or from
// the variables of another launcher. It opens no sockets.
package environ

import (
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/record"
	"github.com/treerun/treerun/internal/status"
)

// Job is the job that this process is a rank of, whatever its source. LocalRank is -1, LocalSize 0 and Hosts nil where
// they follow from the hosts of the ranks; Seed is empty where the launcher passes on the addresses at which rank 0
// listens.
type Job struct {
	job.File
	Seed      string            // HOST:PORT at which rank 0 listens
	Control   net.Conn          // to treerun's launcher, nil where another one, or none, started the rank
	News      *News             // of treerun's launcher in memory, nil for none
	Page      *status.Page      // that treerun's launcher reads, nil for none
	Record    *record.Writer    // likewise
	Variables map[string]string // settings that come from the environment: the variable of each
}

// Find returns the job of this process, which is a job of this rank alone where no launcher has started it. get looks
// up a variable and returns "" when it is not set. Find unsets TREERUN_JOB_FD, so that children of this process do not
// take themselves for the rank.
func Find(get func(name string) string) (*Job, error) {
	if fd := get(job.EnvFD); fd != "" {
		os.Unsetenv(job.EnvFD)
		return inherit(fd)
	}
	for _, l := range launchers {
		if !l.present(get) {
			continue
		}
		j, err := l.job(get)
		if err != nil {
			return nil, fmt.Errorf("environment of %s: %w", l.name, err)
		}
		return j, nil
	}
	return singleRank(get, "")
}

// singleRank returns a job of one rank.
func singleRank(get func(string) string, id string) (*Job, error) {
	if id == "" {
		id = job.NewID()
	}
	j := &Job{File: job.File{JobID: id, Secret: job.NewSecret(), Size: 1, Host: hostname(), Device: get(job.EnvDevice)}}
	return j, j.check()
}

// check reports an error for an invalid value among the variables that ranks of every launcher may have.
func (j *Job) check() error {
	if err := job.CheckDevice(j.Device); err != nil {
		return fmt.Errorf("%w; %s sets it", err, job.EnvDevice)
	}
	if err := job.CheckID(j.JobID); err != nil {
		return fmt.Errorf("%w; %s sets it", err, job.EnvJobID)
	}
	return nil
}

// OneHost reports whether all ranks are known to be on this host.
func (j *Job) OneHost() bool {
	if j.Hosts == nil {
		return j.LocalSize == j.Size
	}
	return !slices.ContainsFunc(j.Hosts, func(h int) bool { return h != j.Hosts[0] })
}

// SeveralHosts reports whether ranks are known to be on several hosts.
func (j *Job) SeveralHosts() bool {
	return !j.OneHost() && (j.Hosts != nil || j.LocalSize > 0)
}

// Key returns the key of the job and its epoch for one purpose.
func (j *Job) Key(purpose string) []byte {
	if j.Epoch > 0 {
		purpose = fmt.Sprintf("epoch %d %s", j.Epoch, purpose)
	}
	key, err := netconn.DeriveKey(j.Secret, j.JobID, "treerun "+purpose)
	if err != nil {
		panic(fmt.Sprintf("environ: HKDF of 32 bytes: %v", err)) // only longer keys or FIPS mode with short secrets fail
	}
	return key
}

// hostname returns the name of this host, for users to read.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name[:min(len(name), 255)]
}
