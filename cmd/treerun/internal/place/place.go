// Package place has the flags that say where ranks run, and how hosts and ranks
// reach each other. Commands that start ranks share them: jobs, topo and bench. It reads
// lists of hosts, as users write them on a command line and in files for Open MPI, MPICH,
// Horovod, DeepSpeed and Slurm, and maps ranks to hosts: a host counts one slot, that is
// one rank, for each time that it is mentioned without a number, and mentions add up. It
// resolves no name and starts nothing. Only the packages below cmd/treerun import it.
package place

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
)

// Options is what the flags say.
type Options struct {
	hosts, hostfile string // where the ranks run
	perHost         cmdline.Ranks
	by              By
	oversubscribe   bool

	agent, sshArgs string // how other hosts are reached
	push           bool
	fanOut         int
	startTimeout   cmdline.Seconds
	peerTimeout    cmdline.Seconds
	stallTimeout   cmdline.Seconds

	iface, ports, probe string // how ranks on several hosts reach each other
	streams             int
	encrypt             bool

	gpus gpus.Request // which GPUs ranks get

	flags *pflag.FlagSet
}

// Define adds the flags to f, which is to be parsed before the other methods are
// called.
func (o *Options) Define(f *pflag.FlagSet) {
	o.flags = f
	f.StringVarP(&o.hosts, "host", "H", "", "run on these `HOSTS`, with so many ranks each: a:4,user@b:4,n[01-16]")
	f.StringVar(&o.hostfile, "hostfile", "", "run on the hosts in this `FILE`, in the form of Open MPI, MPICH, "+
		"Horovod,\nDeepSpeed or Slurm")
	f.Var(&o.perHost, "ppn", "number of ranks per host, whatever the hosts' slots are")
	f.Var(cmdline.Choice(&o.by, "WHAT", byWords...), "map-by",
		"slot: fill a host before the next one (default);\nhost: one rank for each host in turn")
	f.BoolVar(&o.oversubscribe, "oversubscribe", false, "allow more ranks than slots")
	o.startTimeout, o.peerTimeout = cmdline.Seconds(60*time.Second), cmdline.Seconds(10*time.Second)
	f.StringVar(&o.agent, "launch-agent", "",
		"reach other hosts with `COMMAND` instead of ssh; {host} in it stands\nfor the host, and what is to run there is "+
			"appended")
	f.StringVar(&o.sshArgs, "ssh-args", "", "further `ARGUMENTS` for ssh")
	f.BoolVar(&o.push, "push", false, "send treerun and PROGRAM to the other hosts, into memory")
	f.IntVar(&o.fanOut, "fan-out", 16, "start treerun on at most `N` hosts from here, and so on from there")
	f.Var(&o.startTimeout, "start-timeout", "time for all hosts to answer, and then for all ranks to join")
	f.Var(&o.peerTimeout, "peer-timeout", "time after which a host that is not heard of is given up")
	f.Var(&o.stallTimeout, "stall-timeout",
		"time without progress after which a call fails on all ranks, with the\nrank that is waited for (default: none)")
	f.StringVar(&o.iface, "iface", "", "reach ranks on other hosts over these network `DEVICES`: names or\ntheir "+
		"beginnings, =name for exactly this one, ^name for any but these,\nor 10.1.0.0/16 (default: the best of each host)")
	f.StringVar(&o.ports, "port-range", "", "let ranks listen at these `PORTS` only: LO-HI")
	f.BoolVar(&o.encrypt, "encrypt", false, "encrypt what ranks send to other hosts (TLS 1.3)")
	f.IntVar(&o.streams, "tcp-streams", 0, "use `N` connections between two ranks (default: as many as it takes)")
	f.StringVar(&o.probe, "probe", "", "`HOW` to measure the network between hosts where no earlier job has:\nquick "+
		"(default), full or off")
	f.StringVar(&o.gpus.List, "gpus", "",
		"give ranks these `GPUS` of every host, in this order: numbers as\nnvidia-smi has them, 0-3,6, UUIDs or PCI "+
			"addresses (default: all that\nCUDA_VISIBLE_DEVICES shows, by NUMA node and PCI address)")
	f.IntVar(&o.gpus.PerGPU, "ranks-per-gpu", 0, "let `K` ranks share each GPU")
	bind := cmdline.Choice(&o.gpus.Bind, "HOW", "visible", "isolate", "none")
	f.Var(bind, "gpu-bind", "visible: ranks see all GPUs, TREERUN_DEVICE names the rank's own;\nisolate: "+
		"each sees its own only, which other libraries may not like;\nnone: ranks get no GPU (default: visible)")
}

// Elsewhere reports whether hosts were named.
func (o *Options) Elsewhere() bool { return o.hosts != "" || o.hostfile != "" }

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

// GPUs returns which GPUs the ranks of every host get.
func (o *Options) GPUs() (gpus.Request, error) {
	r := o.gpus
	err := r.Check()
	if err == nil && r.PerGPU == 0 && o.flags.Changed("ranks-per-gpu") {
		err = errors.New("--ranks-per-gpu 0: want at least 1")
	}
	if err != nil {
		return r, cmdline.Usagef("%w", err)
	}
	return r, nil
}
