//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/inspect"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
	"github.com/treerun/treerun/internal/numbers"
)

// part is one program of a job of several, as in "treerun -np 1 ./a : -np 7 ./b -v". Its ranks follow those of the part
// before.
type part struct {
	wire.Part
	exports  exports
	share    place.PartShare
	prog     *program
	warnings []string
}

// splitParts takes the parts after the first from the arguments of a job.
func (o *options) splitParts(args []string) error {
	if o.flags.ArgsLenAtDash() >= 0 { // all arguments after "--" are the program's
		return nil
	}
	if args[0] == ":" {
		return cmdline.Usagef("no PROGRAM before the first colon")
	}
	var all [][]string
	rest := 0
	for i := range args {
		if i > 0 && o.beginsPart(args[i:]) {
			all = append(all, args[rest:i])
			rest = i + 1
		}
	}
	if len(all) == 0 {
		if slices.Contains(args, ":") {
			o.colon = args[0]
		}
		return nil
	}
	all = append(all, args[rest:])
	if o.job.Size == 0 {
		return cmdline.Usagef("-np is missing before %s: in a job of several programs each has its number of ranks",
			all[0][0])
	}
	o.parts = []part{{Part: wire.Part{Ranks: o.job.Size, Args: all[0]}}}
	for _, args := range all[1:] {
		p, err := parsePart(args)
		if err != nil {
			return err
		}
		o.parts = append(o.parts, p)
		o.job.Size += p.Ranks
	}
	if o.job.Size > job.MaxRanks {
		return cmdline.Usagef("-np: the programs have %d ranks together, and a job at most %d", o.job.Size, job.MaxRanks)
	}
	var names []string
	for _, p := range o.parts {
		if names = append(names, p.Args[0]); slices.Contains(p.Args, ":") {
			o.colon = p.Args[0]
		}
	}
	o.job.Program = strings.Join(names, " : ")
	for _, name := range []string{"nnodes", "node-rank", "push"} {
		if o.anyChanged(name) && (name != "nnodes" || o.node.count != 1) { // --nnodes 1 is this host alone
			return cmdline.Usagef("--%s takes one program, and this job has several: %s", name, o.job.Program)
		}
	}
	return nil
}

// beginsPart reports whether a program begins behind the colon that args may begin with: a flag of treerun follows, or
// one of a program in other launchers, or another colon, which is one too many. Other colons are arguments of programs.
func (o *options) beginsPart(args []string) bool {
	if len(args) < 2 || args[0] != ":" {
		return false
	}
	word := args[1]
	if word == ":" {
		return o.beginsPart(args[1:])
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	switch {
	case word[:min(1, len(word))] != "-" || name == "":
		return false
	case len(name) > 1 && o.flags.Lookup(name) != nil, slices.Contains(partFlags, name):
		return true
	}
	return attachedFlag.MatchString(word)
}

// partFlags are the short flags of a part, and flags that other launchers have there.
var partFlags = []string{"n", "x", "c", "H", "host", "env", "genv"}

// attachedFlag matches a short flag of a part with its value.
var attachedFlag = regexp.MustCompile(`^-(n\d+|x[A-Za-z_*?[].*)$`)

// parsePart parses a part after the first.
func parsePart(args []string) (p part, err error) {
	help := false
	f := cmdline.NewFlags("treerun", &help)
	f.SetInterspersed(false)
	f.VarP(cmdline.Ranks(&p.Ranks), "np", "n", "number of ranks")
	p.exports.define(f)
	f.StringVar(&p.Dir, "wdir", "", "working `FOLDER`")
	p.share.Define(f)
	err = cmdline.Parse(f, args, "")
	_, unknown := errors.AsType[*cmdline.UnknownFlag](err)
	switch {
	case unknown:
		return p, cmdline.Usagef("after a colon: %w (hint: flags of a part are -np, -x, --env-file, --wdir, and those of "+
			"its cores and GPUs; others are before the first program, and -- before that makes the colon an argument)", err)
	case err != nil:
		return p, cmdline.Usagef("after a colon: %w", err)
	case p.Ranks == 0 || f.NArg() == 0 || f.Arg(0) == "":
		return p, cmdline.Usagef("after a colon: want -np N PROGRAM [ARGS...], not %s", strings.Join(args, " "))
	}
	p.Args = f.Args()
	return p, nil
}

// complete finds the program of p, and reads its environment.
func (p *part) complete() (err error) {
	if p.prog, err = findProgram(p.Args[0]); err != nil {
		return err
	}
	if p.Dir != "" {
		if p.Dir, err = workingDir(p.Dir); err != nil {
			return err
		}
	}
	exports, err := p.exports.list()
	if err != nil {
		return err
	}
	_, p.Env, p.warnings, err = exported(os.Environ(), exports)
	if p.Dir != "" {
		p.Env = append(p.Env, "PWD="+p.Dir)
	}
	return err
}

// program finds the program of the job, or those of its parts. These have this one in its place: agents check that they
// have a program, and the host of a rank finds out about the rank's own.
func (o *options) program() (*program, error) {
	if len(o.parts) == 0 {
		return findProgram(o.job.Program)
	}
	o.job.Args = nil
	for i := range o.parts {
		p := &o.parts[i]
		if err := p.complete(); err != nil {
			return nil, err
		}
		if i > 0 {
			o.job.Args = append(o.job.Args, ":")
		}
		o.job.Args = append(append(o.job.Args, "-np", strconv.Itoa(p.Ranks)), p.Args...)
	}
	return &program{Name: o.job.Program, Path: "/proc/self/exe"}, nil
}

// describeParts describes the programs of a job for --dry-run.
func describeParts(parts []part) string {
	var b strings.Builder
	first := 0
	for _, p := range parts {
		var command []string
		for _, a := range p.Args {
			command = append(command, quote(a))
		}
		path := p.prog.Path
		if p.prog.Folder != "" {
			path = p.prog.Folder + " (Go source, built first)"
		}
		var ranks []int
		for _, r := range numbers.Below(p.Ranks) {
			ranks = append(ranks, first+r)
		}
		fmt.Fprintf(&b, "program      %s of %s: %s\n", path, inspect.RanksText(ranks), strings.Join(command, " "))
		var names []string
		for _, e := range p.Env {
			if name, _, _ := strings.Cut(e, "="); name != "PWD" || p.Dir == "" {
				names = append(names, name)
			}
		}
		if p.Dir != "" {
			fmt.Fprintf(&b, "             in %s\n", p.Dir)
		}
		if len(names) > 0 {
			fmt.Fprintf(&b, "             with its own %s\n", strings.Join(names, " "))
		}
		first += p.Ranks
	}
	return b.String()
}
