//go:build linux

// Package place has the flags for the placement of ranks, and for the connections between hosts and ranks. Commands
// that start ranks share them: jobs, topo and bench. It reads lists of hosts, as users write them on a command line and
// in files for Open MPI, MPICH, Horovod, DeepSpeed and Slurm, or as schedulers pass them, and maps ranks to hosts: a
// host counts one slot, that is one rank, for each time that it is mentioned without a number, and mentions add up. It
// resolves no name and starts nothing. Only the packages below cmd/treerun import it.
package place

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/cores"
	"github.com/treerun/treerun/cmd/treerun/internal/gpus"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/netconn"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/network"
)

// Options holds the values of the flags.
type Options struct {
	Request                    // except Size
	hosts, hostfile string     // where the ranks run
	rankfile        string     // where each rank runs
	ranks           []rankLine // of that file
	slots           []cores.Slots
	idle            []launch.JobHost // hosts of the list that have no rank
	allocation      *allocation      // from which Hosts has taken hosts; nil: none
	scheduler       *allocation      // to which all hosts that need agents belong; nil: none
	outside         string           // the hint that names one of them that does not

	remote              launch.Remote // how other hosts are reached
	iface, ports, probe string        // how ranks on several hosts reach each other
	spares              int           // the last hosts of the list, which have no ranks at the start
	stallTimeout        time.Duration

	share wire.Share // what each rank gets of its host's cores and GPUs

	flags *pflag.FlagSet
}

// minStartTimeout is the shortest --start-timeout.
const minStartTimeout = 100 * time.Millisecond

// Define adds the flags to f, which must be parsed before the other methods are called.
func (o *Options) Define(f *pflag.FlagSet) {
	o.flags = f
	f.VarP(cmdline.Text(&o.hosts, checkList), "host", "H",
		"run on these `HOSTS`, each with its number of ranks: a:4,user@b:4,n[01-16] "+
			"(default: those of an allocation of Slurm, PBS, LSF or SGE, else this host)")
	f.StringVar(&o.hostfile, "hostfile", "", "run on the hosts in this `FILE`, in the form of Open MPI, MPICH, "+
		"Horovod, DeepSpeed or Slurm")
	f.Var(cmdline.Ranks(&o.PerHost), "ppn", "number of ranks per host, up to its slots where they are given")
	f.Var(cmdline.Choice(&o.MapBy, "WHAT", mapByWords...), "map-by",
		"slot: fill a host before the next one (default); host: one rank for each host in turn; numa, socket or l3: as "+
			"slot, and bind the ranks of a host to its NUMA nodes, sockets or L3 caches, in turn")
	f.StringVar(&o.rankfile, "rankfile", "", "run each rank on the host and the cores that this `FILE` has for it, in "+
		"the form of Open MPI: rank 0=a slot=0-2")
	f.BoolVar(&o.Oversubscribe, "oversubscribe", false, "allow more ranks than slots, and than the cores of "+
		"--cpus-per-rank and --rankfile")
	o.defineRemote(f)
	f.Var(cmdline.Text(&o.iface, iface.Parse), "iface",
		"reach ranks on other hosts over these network `DEVICES`: names or their "+
			"beginnings, =name for exactly this one, ^name for any but these, or 10.1.0.0/16 (default: the best of each host)")
	f.Var(cmdline.Text(&o.ports, netconn.ParsePorts), "port-range",
		"let ranks listen at these `PORTS` only: LO-HI")
	f.Bool("encrypt", false, "encrypt the traffic of ranks with other hosts (TLS 1.3)")
	f.Var(cmdline.LowerWord(&o.probe, string(network.Quick), string(network.Full), string(network.Off)), "probe",
		"`HOW` to measure the network between hosts unless an earlier job has done so: quick (default), full or off")
	defineShare(f, &o.share)
}

// defineRemote adds the flags about how other hosts are reached.
func (o *Options) defineRemote(f *pflag.FlagSet) {
	r := &o.remote
	r.FanOut, r.Timeout, r.PeerTimeout = 16, 60*time.Second, 10*time.Second
	f.Var(commandValue(&r.Command, "{host}"), "launch-agent",
		"reach other hosts with `COMMAND`; {host} in it stands for the host, and the command to run there is appended "+
			"(default: in an allocation the scheduler's own command, where it is found, else ssh)")
	f.Var(commandValue(&r.SSHArgs, ""), "ssh-args", "further `ARGUMENTS` for ssh")
	f.BoolVar(&r.Push, "push", false, "send treerun and PROGRAM to the other hosts, into memory")
	f.Var(cmdline.IntRange(&o.spares, 0, job.MaxRanks), "spares",
		"with --on-failure restart or respawn: the last `N` hosts get no rank until another host is lost, whose ranks then "+
			"start there")
	f.Var(cmdline.IntRange(&r.FanOut, 1, job.MaxRanks), "fan-out",
		"start treerun on at most `N` hosts from here; these start it on further ones")
	f.Var(cmdline.Time(&r.Timeout, minStartTimeout), "start-timeout",
		"time for all hosts to answer, and then for all ranks to join")
	f.Var(cmdline.Time(&r.PeerTimeout, job.MinPeerTimeout), "peer-timeout",
		"time after which a host that is silent is lost, and so is a rank for ranks of other hosts, as when it is stopped")
	f.Var(cmdline.Time(&o.stallTimeout, job.MinStallTimeout), "stall-timeout",
		"time without progress after which a call fails on all ranks, and names the rank at fault (default: none)")
}

// commandValue is the value of a flag for a command, or arguments, that must contain something.
func commandValue(dst *[]string, required string) pflag.Value {
	return cmdline.Text(new(string), func(text string) (_ []string, err error) {
		if required != "" && text == "ssh" {
			*dst = nil
			return nil, nil
		}
		if !strings.Contains(text, required) {
			return nil, fmt.Errorf("want %s in the command", required)
		}
		*dst, err = cmdline.SplitWords(text)
		return *dst, err
	})
}

// Remote describes how other hosts are reached.
func (o *Options) Remote() (launch.Remote, error) {
	err := o.environment()
	r := o.remote
	if err != nil {
		return r, err
	}
	if r.Command != nil && r.SSHArgs != nil {
		return r, cmdline.Usagef("--ssh-args is for ssh, not for --launch-agent")
	}
	r.PushProgram, r.Hint = r.Push, o.hint()
	switch command, found := o.schedulerAgent(); {
	case o.wantsAgent():
	case o.outside != "":
		r.Hint = o.outside
	case found:
		r.Command = command
	case command != nil:
		r.Hint = fmt.Sprintf(" (ssh reaches it, since %s is not in PATH)%s", command[0], r.Hint)
	}
	r.Lines = len(r.Command) > 0 && path.Base(r.Command[0]) == "srun"
	return r, nil
}

// wantsAgent reports whether the user has a command for agents, or ssh.
func (o *Options) wantsAgent() bool {
	return o.flags.Changed("launch-agent") || o.remote.SSHArgs != nil
}

// schedulerAgent returns the command by which the scheduler of an allocation starts programs on its hosts, and whether
// it is in PATH.
func (o *Options) schedulerAgent() (command []string, found bool) {
	if o.scheduler == nil || o.scheduler.agent == nil {
		return nil, false
	}
	command = o.scheduler.agent
	_, err := exec.LookPath(command[0])
	return command, err == nil
}

// settings are the flags that are settings of a job, as far as a command has them. The first ones have variables, too,
// which ranks of other launchers read.
var settings = []string{"peer-timeout", "start-timeout", "stall-timeout", "iface", "port-range", "probe", "encrypt",
	"no-topo-cache", "verbose"}

const settingsWithVariable = 5

// environment takes the values of flags that were not given from variables.
func (o *Options) environment() error {
	for _, name := range settings[:settingsWithVariable] {
		f, text := o.flags.Lookup(name), os.Getenv(job.Variable(name))
		if f.Changed || text == "" {
			continue
		}
		if err := f.Value.Set(text); err != nil {
			return cmdline.Usagef("%s is %.40q: %w", job.Variable(name), text, err)
		}
		f.Changed = true
	}
	return nil
}

// setSettings adds the flags that were given to the settings of a job; package rank knows the defaults.
func (o *Options) setSettings(s map[string]string) {
	for _, name := range settings {
		if f := o.flags.Lookup(name); f != nil && f.Changed {
			value := f.Value.String()
			if f.Value.Type() == "bool" {
				value = map[string]string{"true": "1"}[value]
			}
			if value != "" {
				s[name] = value
			}
		}
	}
}

// Fill sets how a job reaches other hosts, the cores and GPUs of its ranks, and its settings.
func (o *Options) Fill(j *launch.Job) (err error) {
	if j.Remote, err = o.Remote(); err == nil {
		o.setSettings(j.Settings)
		j.Idle = o.idle
		j.GPUs, err = o.GPUs()
	}
	if err == nil {
		err = o.setCores(&j.Cores)
	}
	return err
}

// setCores sets the cores of the ranks.
func (o *Options) setCores(r *cores.Request) error {
	r.MapBy, r.PerRank = cores.Level(max(0, o.MapBy-byNode)), o.share.PerRank
	r.Slots, r.Oversubscribe = o.slots, o.Oversubscribe
	if o.rankfile != "" {
		for _, name := range []string{"map-by", "ppn", "bind-to", "cpus-per-rank"} {
			if o.flags.Changed(name) {
				return cmdline.Usagef("--rankfile has the host and the cores of each rank: it cannot be combined with --%s", name)
			}
		}
	}
	if err := r.Check(); err != nil {
		return cmdline.Usagef("%w", err)
	}
	return nil
}

// checkList refuses the value of -H when blanks have split the list into arguments, of which this is the first.
func checkList(list string) (_ any, err error) {
	if strings.HasSuffix(list, ",") {
		err = fmt.Errorf("ends in a comma (hint: put a list with blanks in quotes, as in -H 'a:2, b:2')")
	}
	return nil, err
}

// NamesHosts reports whether hosts were named.
func (o *Options) NamesHosts() bool { return o.hosts != "" || o.hostfile != "" }

// DefaultRanks returns n, or the number of ranks of this host where n is 0: that of --ppn, else of the host's GPUs that
// the flags leave, without GPUs that of usable cores, divided by --cpus-per-rank.
func (o *Options) DefaultRanks(n int) (int, error) {
	if o.PerHost > 0 && n > o.PerHost {
		return 0, cmdline.Usagef("%s on one host, but --ppn %d", numbers.Count(n, "rank"), o.PerHost)
	}
	n = cmp.Or(n, o.PerHost)
	r, err := o.GPUs()
	if err != nil || n > 0 {
		return n, err
	}
	count, err := gpus.Count(r, os.Environ())
	if err != nil {
		return 0, fmt.Errorf("%w (give the number of ranks with -np)", err)
	}
	return cmp.Or(count, max(1, job.UsableCores()/max(1, o.share.PerRank))), nil
}

// GPUs returns which GPUs the ranks of every host get.
func (o *Options) GPUs() (gpus.Request, error) {
	if err := o.share.GPUs.Check(); err != nil {
		return o.share.GPUs, cmdline.Usagef("%w", err)
	}
	return o.share.GPUs, nil
}
