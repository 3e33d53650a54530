package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/rank/job"
)

// options is the command line that runs a job.
type options struct {
	size            ranks // 0: the default
	exports         []string
	dir             string // "": as ours
	tag             bool
	outputDir       string
	timeout         seconds // 0: none
	shutdownTimeout seconds
	noTopoCache     bool
	dryRun          bool
	verbose         bool
	help, version   bool

	program string
	args    []string

	flags *pflag.FlagSet
}

func newOptions() *options {
	o := &options{shutdownTimeout: seconds(10 * time.Second)}
	f := pflag.NewFlagSet("treerun", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SetInterspersed(false) // the first argument that is no flag is PROGRAM
	f.SortFlags = false
	f.VarP(&o.size, "np", "n", "number of ranks (default: the number of GPUs, without GPUs of usable cores)")
	f.StringArrayVarP(&o.exports, "export", "x", nil, "give the ranks an environment `VARIABLE`, as NAME=VALUE; NAME alone\nand patterns like 'NCCL_*' are for ranks on other hosts: here, ranks\nhave treerun's whole environment")
	f.StringVar(&o.dir, "wdir", "", "run the ranks in this `FOLDER`; PROGRAM is found before, from here")
	f.BoolVarP(&o.tag, "tag-output", "l", false, "put \"[rank] \" in front of each line (default: with more than one rank)")
	f.StringVar(&o.outputDir, "output-dir", "", "also write what each rank prints, byte for byte, to\n`FOLDER`/rank.N/stdout and .../stderr")
	f.Var(&o.timeout, "timeout", "stop the job after this time: seconds, or as in 90s, 15m, 2h")
	f.Var(&o.shutdownTimeout, "shutdown-timeout", "time that ranks have from SIGTERM to SIGKILL")
	f.BoolVar(&o.noTopoCache, "no-topo-cache", false, "measure the links between ranks anew")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be run, and run nothing")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "tell on stderr what happens, and when")
	f.BoolVar(&o.version, "version", false, "print the version of treerun")
	f.BoolVarP(&o.help, "help", "h", false, "print this text")
	o.flags = f
	return o
}

// parse reads a command line without the program's name. An error is one of
// usage, and carries its exit code.
func parse(args []string) (*options, error) {
	o := newOptions()
	if err := o.flags.Parse(rewrite(args, o.flags)); err != nil {
		return nil, exitcode.Errorf(exitcode.Usage, "%w", err)
	}
	if o.help || o.version {
		return o, nil
	}
	if o.flags.NArg() == 0 {
		return nil, exitcode.Errorf(exitcode.Usage, "no PROGRAM given")
	}
	if o.flags.Arg(0) == "" {
		return nil, exitcode.Errorf(exitcode.Usage, "PROGRAM is empty")
	}
	o.program, o.args = o.flags.Arg(0), o.flags.Args()
	return o, nil
}

// tagged tells whether lines get a tag in a job of n ranks.
func (o *options) tagged(n int) bool {
	if o.flags.Changed("tag-output") {
		return o.tag
	}
	return n > 1
}

// rewrite turns -np, which users of MPI type, into --np. It stops at PROGRAM,
// whose own flags are not ours to change.
func rewrite(args []string, flags *pflag.FlagSet) []string {
	out := append([]string(nil), args...)
	for i := 0; i < len(out); i++ {
		arg := out[i]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			break
		}
		if rest, ok := strings.CutPrefix(arg, "-np"); ok {
			switch {
			case rest == "":
				arg = "--np"
			default:
				arg = "--np=" + strings.TrimPrefix(rest, "=")
			}
			out[i] = arg
		}
		if takesNext(arg, flags) {
			i++
		}
	}
	return out
}

// takesNext tells whether the argument after this flag is its value.
func takesNext(arg string, flags *pflag.FlagSet) bool {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		f := flags.Lookup(name) // with "=VALUE" it finds none
		return f != nil && f.NoOptDefVal == ""
	}
	for i, c := range arg[1:] {
		if c > 0x7f {
			return false
		}
		if f := flags.ShorthandLookup(string(c)); f != nil && f.NoOptDefVal == "" {
			return i == len(arg)-2 // else the rest of arg is the value
		}
	}
	return false
}

// ranks is the value of -np.
type ranks int

func (r *ranks) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > job.MaxRanks {
		return fmt.Errorf("want a whole number from 1 to %d", job.MaxRanks)
	}
	*r = ranks(n)
	return nil
}

func (r *ranks) Type() string { return "N" }

func (r *ranks) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.Itoa(int(*r))
}

// seconds is the value of a flag that takes a time.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, numErr := strconv.ParseFloat(text, 64); numErr == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
		if math.IsNaN(n) || n > 1e9 {
			err = errors.New("out of range")
		}
	}
	if err != nil || d < 0 {
		return errors.New("want a time, as 30, 2.5s, 15m or 2h")
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) Type() string { return "TIME" }

func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}
