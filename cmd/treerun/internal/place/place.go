// Package place has the flags that say where ranks run, and how hosts and ranks
// reach each other. Commands that start ranks share them: jobs, topo and bench. It reads
// lists of hosts, as users write them on a command line and in files for Open MPI, MPICH,
// Horovod, DeepSpeed and Slurm, and maps ranks to hosts: a host counts one slot, that is
// one rank, for each time that it is mentioned without a number, and mentions add up. It
// resolves no name and starts nothing. Only the packages below cmd/treerun import it.
package place

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
)

// Options is what the flags say.
type Options struct {
	hosts  hostOptions
	remote remoteOptions
	net    netOptions
	gpus   gpuOptions
	flags  *pflag.FlagSet
}

// Define adds the flags to f, which is to be parsed before the other methods are
// called.
func (o *Options) Define(f *pflag.FlagSet) {
	o.flags = f
	o.hosts.define(f)
	o.remote.define(f)
	o.net.define(f)
	o.gpus.define(f)
}

// Elsewhere reports whether hosts were named.
func (o *Options) Elsewhere() bool { return o.hosts.list != "" || o.hosts.file != "" }

// DefaultRanks returns n, or the number of ranks where n is 0: that of the
// host's GPUs that a request leaves, without GPUs that of usable cores.
func DefaultRanks(n cmdline.Ranks, r gpus.Request) (int, error) {
	if n > 0 {
		return int(n), nil
	}
	count, err := gpus.Count(r, os.Environ())
	if err != nil {
		return 0, fmt.Errorf("%w (give the number of ranks with -np)", err)
	}
	if count > 0 {
		return count, nil
	}
	return cmdline.UsableCores(), nil
}
