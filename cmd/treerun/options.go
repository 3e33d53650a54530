//go:build linux

package main

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/metrics"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// options are those of the command line that runs a job.
type options struct {
	job           launch.Job // with the values of flags; a Size of 0 and a Dir of "" are the defaults
	place         place.Options
	node          nodeOptions
	planning      planner.JobFlags
	exports       exports
	parts         []part // where the job has several programs
	colon         string // the program that has a colon as an argument, which may have been meant to begin another one
	pprofDir      string
	traceFile     string
	metrics       string
	reportFile    string
	dryRun        bool
	verbose       bool
	help, version bool
	variable      string // the flags of the environment

	flags *pflag.FlagSet
}

// shutdownTimeout is the default of --shutdown-timeout.
const shutdownTimeout = 10 * time.Second

func newOptions() *options {
	o := new(options)
	j := &o.job
	j.ShutdownTimeout, j.SigtermCode = shutdownTimeout, cmdline.SignalCode(syscall.SIGTERM)
	j.Lives.MaxRestarts, j.Lives.MinSize = 3, 1
	f := cmdline.NewFlags("treerun", &o.help)
	f.SetInterspersed(false) // the first argument that is not a flag is PROGRAM
	f.VarP(cmdline.Ranks(&j.Size), "np", "n",
		"number of ranks (default: one for every slot of the hosts; on this host the number of GPUs, without GPUs of "+
			"usable cores)")
	o.place.Define(f)
	o.node.define(f)
	o.planning.Define(f)
	o.exports.define(f)
	f.StringVar(&j.Dir, "wdir", "", "run the ranks in this `FOLDER`; PROGRAM is relative to the current one")
	f.VarPF(cmdline.Setter("WHAT", func(text string) (err error) {
		j.Tag, err = output.ParseTag(text)
		return err
	}), "tag-output", "l", "put [rank] in front of each line; or some of rank, host and time, as in "+
		"--tag-output=rank,time; or false (default: rank, with more than one)").NoOptDefVal = "rank"
	f.Var(cmdline.RankSet(&j.Show), "show-ranks",
		"show the output of these `RANKS` only, as 0,4-7; files of --output-dir, and errors, have that of all")
	f.Var(cmdline.SizeFrom(&j.Memory, 1<<20), "mem-per-rank",
		"limit the memory of each rank to this `SIZE`, by a control group")
	f.Var(cmdline.RankSet(&j.Debug), "debug",
		"run these `RANKS` under Delve (dlv), and print the command that connects to each; no limit of time holds")
	f.BoolVar(&j.OneOutput, "merge-stderr", false, "the stderr of each rank is its stdout")
	f.Var(cmdline.Setter("RANK", o.setStdin), "stdin",
		"the rank that reads stdin, all or none (default: 0); others have an empty one")
	f.StringVar(&j.OutputDir, "output-dir", "",
		"also write the output of each rank, byte for byte, to `FOLDER`/rank.N/stdout and .../stderr, and the cause of a "+
			"failure with the latest calls of all ranks to FOLDER/cause.txt")
	f.StringVar(&j.Result, "result", "",
		"write how the job and each rank have ended to this `FILE`, as JSON")
	f.StringVar(&o.pprofDir, "pprof", "",
		"ranks write profiles of the CPU, `FOLDER`/rank-N.pprof, and of the heap, FOLDER/heap-N.pprof, each on its "+
			"host, for go tool pprof")
	f.StringVar(&o.traceFile, "trace", "",
		"write a timeline of the calls, waits and phases of all ranks to this `FILE`, for ui.perfetto.dev; as JSON, if its "+
			"name ends in .json")
	f.Var(cmdline.Text(&o.metrics, metrics.CheckAddress), "metrics",
		"serve metrics of the running job for Prometheus at this `HOST:PORT`; without HOST, on this host only")
	f.StringVar(&o.reportFile, "report", "",
		"write a page about the job to this `FILE` at its end, as HTML for a browser: ranks, plans, calls, waits, faults")
	f.Var(cmdline.Time(&j.Timeout, 0), "timeout", "stop the job after this time: seconds, or as in 90s, 15m, 2h")
	f.Var(cmdline.Time(&j.ShutdownTimeout, 0), "shutdown-timeout", "time that ranks have from SIGTERM to SIGKILL")
	f.Var(cmdline.Choice(&j.Lives.Policy, "POLICY", "stop", "restart", "respawn", "shrink"), "on-failure",
		"when a rank fails. stop: the job ends; restart: all ranks start again; respawn: the lost rank starts again, and "+
			"the others continue with their numbers; shrink: the others continue. The last two need programs that use "+
			"rank.Worlds")
	f.Var(cmdline.IntRange(&j.Lives.MaxRestarts, 0, job.MaxEpoch), "max-restarts",
		"with --on-failure restart or respawn: number of restarts after which a failure ends the job; each respawned rank "+
			"counts as one")
	f.Var(cmdline.IntRange(&j.Lives.MinSize, 1, job.MaxRanks), "min-np",
		"with --on-failure respawn or shrink: number of ranks below which the job ends")
	f.Var(cmdline.IntRange(&j.SigtermCode, 0, 255), "sigterm-exit-code",
		"exit code of a job stopped by SIGTERM whose ranks all ended with 0")
	place.DefineBind(f, &j.Cores.Bind)
	f.BoolVar(&j.Report, "report-bindings", false, "print the cores on which each rank may run")
	f.Bool("no-topo-cache", false, "measure the links between ranks again")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the job, and do not run it")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print on stderr the steps of the job, and their times")
	f.BoolVar(&o.version, "version", false, "print the version of treerun")
	o.flags = f
	return o
}

// setStdin sets the rank that reads stdin.
func (o *options) setStdin(text string) (err error) {
	switch j := &o.job; text {
	case "none":
		j.StdinRank = wire.StdinNone
	case "all":
		j.StdinRank = wire.StdinAll
	default:
		if j.StdinRank, err = strconv.Atoi(text); err != nil || j.StdinRank < 0 {
			return errors.New("want the number of a rank, all or none")
		}
	}
	return nil
}

// parse parses a command line without the program's name. An error is one of usage, and carries its exit code; the
// options before it are set.
func parse(args []string) (*options, error) {
	o := newOptions()
	variableErr := o.parseVariable(args)
	if err := cmdline.Parse(o.flags, args, othersFlags); err != nil {
		return o, cmdline.Usagef("%w", err)
	}
	if o.help || o.version {
		return o, nil
	}
	if variableErr != nil {
		return o, variableErr
	}
	if o.flags.NArg() == 0 {
		return o, cmdline.Usagef("no PROGRAM given")
	}
	if o.flags.Arg(0) == "" {
		return o, cmdline.Usagef("PROGRAM is empty")
	}
	if err := o.checkPolicy(); err != nil {
		return o, err
	}
	args = o.flags.Args()
	if _, err := output.ParseTag(args[0]); err == nil && o.flags.Changed("tag-output") {
		if _, err = exec.LookPath(args[0]); err != nil {
			return o, cmdline.Usagef("%s is no PROGRAM (hint: --tag-output=%[1]s, with =)", args[0])
		}
	}
	o.job.Program, o.job.Args = args[0], args
	return o, o.splitParts(args)
}

// checkPolicy returns an error for a flag that does not apply to the policy of --on-failure.
func (o *options) checkPolicy() error {
	p := o.job.Lives.Policy
	word := cmp.Or(o.flags.Lookup("on-failure").Value.String(), "stop")
	switch {
	case o.flags.Changed("max-restarts") && p != membership.Restart && p != membership.Respawn:
		return cmdline.Usagef("--max-restarts is for --on-failure restart or respawn, not %s", word)
	case o.flags.Changed("min-np") && p != membership.Respawn && p != membership.Shrink:
		return cmdline.Usagef("--min-np is for --on-failure respawn or shrink, not %s", word)
	}
	if o.flags.Changed("spares") && p != membership.Restart && p != membership.Respawn {
		return cmdline.Usagef("--spares is for --on-failure restart or respawn, not %s", word)
	}
	return nil
}

// othersFlags are flags of Open MPI, MPICH, torchrun, Horovod and Slurm, with their replacements in treerun.
//
//go:embed help/others.txt
var othersFlags string

// tag returns what stands in front of lines in a job of n ranks.
func (o *options) tag(n int) output.Tag {
	if o.flags.Changed("tag-output") {
		return o.job.Tag
	}
	return output.Tag{Rank: n > 1}
}

// environment returns base with the variables that -x and --env-file set, the variables for other hosts (with treerun's
// own), and warnings about names that are not set.
func environment(base []string, exports []export) (env, remote, warnings []string, err error) {
	env, own, warnings, err := exported(base, exports)
	if err != nil {
		return nil, nil, nil, err
	}
	remote = matchingVariables(base, "TREERUN_*")
	for _, e := range own {
		remote = host.Setenv(remote, e)
	}
	return env, remote, warnings, nil
}

// exported is environment, with the variables of exports alone in place of those for other hosts.
func exported(base []string, exports []export) (env, own, warnings []string, err error) {
	env = slices.Clone(base)
	for _, x := range exports {
		name, _, set := strings.Cut(x.text, "=")
		pattern := strings.ContainsAny(name, "*?[")
		switch {
		case name == "" || strings.Contains(x.text, "\x00"):
			return nil, nil, nil, cmdline.Usagef("%s: want NAME or NAME=VALUE", x.where)
		case set && pattern:
			return nil, nil, nil, cmdline.Usagef("%s: a pattern has no value", x.where)
		case set && slices.Contains(host.RankVariables(), name):
			return nil, nil, nil, cmdline.Usagef("%s: treerun sets %s itself", x.where, name)
		case set:
			env, own = host.Setenv(env, x.text), host.Setenv(own, x.text)
			if x.inQuotes() {
				warnings = append(warnings, fmt.Sprintf("%s: the quotes are a part of the value of %s", x.where, name))
			}
			continue
		}
		found := matchingVariables(env, name)
		for _, e := range found {
			own = host.Setenv(own, e)
		}
		if _, err := path.Match(name, ""); err != nil {
			return nil, nil, nil, cmdline.Usagef("%s: %w", x.where, err)
		}
		switch {
		case len(found) == 0 && pattern:
			warnings = append(warnings, x.where+": no variable of the environment matches")
		case len(found) == 0:
			warnings = append(warnings, fmt.Sprintf("%s: %s is not set in the environment", x.where, name))
		}
	}
	return env, own, warnings, nil
}

// matchingVariables returns the variables of env that match the pattern, as in a shell,
// except those that treerun itself sets for ranks.
func matchingVariables(env []string, pattern string) []string {
	var found []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if ok, _ := path.Match(pattern, name); ok && !slices.Contains(host.RankVariables(), name) {
			found = append(found, e)
		}
	}
	return found
}
