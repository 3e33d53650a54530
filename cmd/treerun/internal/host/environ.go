package host

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// names are the environment variables that every rank gets.
var names = []string{
	job.EnvFD, job.EnvJobID, job.EnvRank, job.EnvSize, job.EnvLocalRank, job.EnvLocalSize, job.EnvEpoch, job.EnvDevice,
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
}

// Names returns the names of the environment variables that every rank gets
// from treerun.
func Names() []string { return slices.Clone(names) }

// jobEnv returns the environment of a host's ranks without what differs from
// rank to rank.
func jobEnv(base []string, f *job.File, j *wire.Job) []string {
	size, local := strconv.Itoa(f.Size), strconv.Itoa(f.LocalSize)
	return append(base,
		job.EnvFD+"="+strconv.Itoa(jobFD), job.EnvJobID+"="+f.JobID, job.EnvSize+"="+size, job.EnvLocalSize+"="+local,
		job.EnvEpoch+"="+strconv.Itoa(f.Epoch), "WORLD_SIZE="+size, "LOCAL_WORLD_SIZE="+local, "MASTER_ADDR="+j.Master,
		"MASTER_PORT="+strconv.Itoa(j.Port))
}

// rankEnv returns the environment of one rank.
func rankEnv(common []string, rank, local int, p *gpus.Plan) []string {
	r, l := strconv.Itoa(rank), strconv.Itoa(local)
	switch {
	case p.GPUs == nil:
	case p.Isolate:
		common = Setenv(common, visibleDevices+"="+p.GPUs[local].UUID)
	case p.Visible != nil:
		common = Setenv(common, visibleDevices+"="+strings.Join(p.Visible, ","))
	}
	if p.GPUs != nil {
		common = append(slices.Clip(common), job.EnvDevice+"="+p.GPUs[local].UUID)
	}
	return append(slices.Clip(common), job.EnvRank+"="+r, job.EnvLocalRank+"="+l, "RANK="+r, "LOCAL_RANK="+l)
}

// visibleDevices is the name of the variable that says which GPUs CUDA shows.
const visibleDevices = "CUDA_VISIBLE_DEVICES"

// without returns a copy of env that lacks the named variables.
func without(env []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(names, name)
	})
}

// Setenv returns a copy of env with an entry NAME=VALUE as the only one of its name.
func Setenv(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	return append(without(env, name), entry)
}

// Describe says what the launcher wants to know of this host.
func Describe() (*wire.Ready, error) {
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host: %w", err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port for MASTER_PORT: %w%s", err, LimitHint(err))
	}
	defer l.Close()
	cores := cmdline.UsableCores()
	return &wire.Ready{Host: name, PID: os.Getpid(), Cores: cores, Port: l.Addr().(*net.TCPAddr).Port,
		Machine: job.MachineID(cores)}, nil
}
