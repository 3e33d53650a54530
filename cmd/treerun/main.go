//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/treerun/treerun/cmd/treerun/internal/agent"
	"github.com/treerun/treerun/cmd/treerun/internal/bench"
	"github.com/treerun/treerun/cmd/treerun/internal/check"
	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/launch"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/planner"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/safefile"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
)

func init() { // those that need Linux
	unlisted = append(unlisted, agent.Command)
	maps.Copy(commands, map[string]func(args []string) (int, error){
		"check":  func(args []string) (int, error) { return check.Main(os.Stdout, args, thisHost()) },
		"bench":  bench.Main,
		"resize": runResize,
		"status": runStatus,

		// Commands that treerun starts itself; they are not documented for users.
		agent.Command:                     agent.Main,
		host.DebugCommand:                 host.RunDebug,
		host.GuardCommand:                 func(args []string) (int, error) { return 0, host.RunGuard(args) },
		launch.RankName(bench.Subcommand): bench.Rank,
		launch.RankName(measureCommand):   measureRank,
		launch.RankName(check.Subcommand): func(args []string) (int, error) { return 0, check.Serve(thisHost(), args) },
	})
}

// measureTopo measures the links of ranks on the hosts of where: without cached results, unless
// --probe off forbids to measure the network between hosts.
func measureTopo(ranks int, where *place.Options) (*planner.Measured, int, error) {
	// Later jobs may use the results.
	j := &launch.Job{Settings: map[string]string{"no-topo-cache": "refresh"},
		Screen: output.NewScreen(os.Stdout, os.Stderr)}
	var err error
	if j.Hosts, j.Size, err = where.Hosts(ranks, 0); err == nil {
		err = where.Fill(j)
	}
	if err != nil {
		return nil, 0, err
	}
	if j.Hosts != nil && j.Settings["probe"] == string(network.Off) {
		delete(j.Settings, "no-topo-cache")
	}
	return measureGraph(j)
}

// runJob is the command without a name.
func runJob(args []string) (code int, err error) {
	begin, variable := time.Now(), os.Getenv(cmdline.FlagsVariable)
	defer func() {
		if err != nil && variable != "" && cmdline.ExitCode(err) == cmdline.ExitUsage {
			err = fmt.Errorf("%w (%s is %q)", err, cmdline.FlagsVariable, variable)
		}
	}()
	o, err := parse(args)
	switch {
	case err != nil:
		return 0, errors.Join(err, o.ownResult()) // no flag after the first error counts
	case o.help:
		return 0, printHelp()
	case o.version:
		return 0, printVersion()
	}
	if code, err = o.run(begin); err != nil {
		o.job.ResultOf(err)
	}
	return code, err
}

// run runs the job, or prints it.
func (o *options) run(begin time.Time) (int, error) {
	if err := host.CheckAddressSpace(); err != nil {
		return 0, err
	}
	prog, err := o.program()
	if len(o.parts) == 0 {
		if code, done, err := runNodes(o, prog, err, begin); done {
			return code, err
		}
	}
	if resultErr := o.ownResult(); resultErr != nil {
		return 0, resultErr
	}
	if err != nil {
		return 0, err
	}
	j, err := newJob(o, prog, begin)
	if err != nil {
		return 0, err
	}
	if o.dryRun {
		return 0, printDryRun(os.Stdout, j, prog, o)
	}
	if cores := job.UsableCores(); j.Hosts == nil && j.Size > cores {
		j.Screen.Err.Printf("treerun: %d ranks share %s", j.Size, numbers.Count(cores, "core"))
	}
	return o.buildAndRun(j, prog)
}

// ownResult removes the file of --result that an earlier job has left, and reports an error where none can be written.
func (o *options) ownResult() (err error) {
	file := o.job.Result
	if file == "" {
		return nil
	}
	if err = safefile.CanSave(file); err == nil && !o.dryRun {
		err = safefile.Remove(file)
	}
	if err != nil || o.dryRun {
		o.job.Result = ""
	}
	if err != nil {
		return fmt.Errorf("--result: %w", err)
	}
	return nil
}

// buildAndRun builds the programs that are source, and runs the job. It keeps its operating system
// thread: the processes that it starts die with that thread.
func (o *options) buildAndRun(j *launch.Job, prog *program) (code int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j.Signals = launch.Signals()
	programs := []*program{prog}
	for _, p := range o.parts {
		programs = append(programs, p.prog)
	}
	for i, p := range programs {
		defer func() {
			if removeErr := p.remove(); err == nil {
				err = removeErr
			}
		}()
		if p.Folder == "" {
			continue
		}
		if i > 0 && len(j.Hosts) > 0 {
			return 0, cmdline.Usagef("%s is a folder: in a job of several programs on several hosts, give executables (hint: "+
				"go build)", p.Name)
		}
		if err := p.build(j.Signals, j.Screen.Err, j.Debug != nil); err != nil {
			return 0, err
		}
		j.Trace("built %s", p.Folder)
		j.Remote.PushProgram = j.Remote.Open == nil // other hosts do not have it, unless they build it, too
	}
	j.Path = prog.Path
	for i := range o.parts {
		j.Parts[i].Path = o.parts[i].prog.Path
	}
	j.Started = func() error { return nil }
	if j.Lives.Policy == membership.Stop && j.Debug == nil { // Delve reads it later
		j.Started = prog.remove // the ranks have it open
	}
	return launch.Run(j)
}

// newJob returns the job of some options; its Path is set once the program is built.
func newJob(o *options, prog *program, begin time.Time) (_ *launch.Job, err error) {
	screen := output.NewScreen(os.Stdout, os.Stderr)
	j, dir := &o.job, o.job.Dir
	j.Path, j.Stdin, j.Screen, j.Trace = prog.Path, os.Stdin, screen, o.tracer(begin, screen.Err.Printf)
	j.Settings = make(map[string]string)
	if j.Hosts, j.Size, err = o.hosts(); err == nil {
		err = o.place.Fill(j)
	}
	if from := o.place.Source(); from != "" {
		j.Trace("%s", from)
	}
	if err == nil {
		j.Dir, err = workingDir(dir)
	}
	var warnings []string
	if err == nil {
		var exports []export
		if exports, err = o.exports.list(); err == nil {
			j.Env, j.Exports, warnings, err = environment(os.Environ(), exports)
		}
	}
	if err == nil {
		err = o.planning.Settings(j.Settings, j.Size)
	}
	if err == nil && o.flags.Changed("pprof") {
		j.Settings["pprof"], err = filepath.Abs(o.pprofDir)
	}
	if err == nil {
		err = o.record(j)
	}
	if err != nil {
		return nil, err
	}
	o.connect(&j.Remote)
	for i := range o.parts {
		p := &o.parts[i]
		if p.Share, err = p.share.Over(j); err != nil {
			return nil, err
		}
		j.Parts = append(j.Parts, p.Part)
		warnings = append(warnings, p.warnings...)
	}
	for _, w := range warnings {
		screen.Err.Printf("treerun: %s", w)
	}
	if dir != "" {
		j.Env = host.Setenv(j.Env, "PWD="+j.Dir)
	}
	if o.colon != "" {
		screen.Err.Printf("treerun: the colon is an argument of %s (hint: \": -np N PROGRAM\" begins another program; -- "+
			"before %[1]s accepts the colon)", o.colon)
	}
	j.Tag = o.tag(j.Size)
	for flag, ranks := range map[string][]int{"show-ranks": j.Show, "debug": j.Debug, "stdin": {j.StdinRank}} {
		if n := len(ranks); n > 0 && ranks[n-1] >= j.Size {
			return nil, cmdline.Usagef("--%s %s: the job has %s", flag, topo.RankList(ranks), numbers.Count(j.Size, "rank"))
		}
	}
	if j.Debug != nil {
		o.withoutLimits(j)
	}
	if j.Lives.MinSize > j.Size {
		return nil, cmdline.Usagef("--min-np %d is more than the %s of the job", j.Lives.MinSize,
			numbers.Count(j.Size, "rank"))
	}
	return j, nil
}

// workingDir returns the folder of the ranks.
func workingDir(dir string) (string, error) {
	if dir != "" {
		info, err := os.Stat(dir)
		if err != nil {
			return "", fmt.Errorf("--wdir: %w", err)
		}
		if !info.IsDir() {
			return "", fmt.Errorf("--wdir: %s is not a folder", dir)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	return abs, nil
}
