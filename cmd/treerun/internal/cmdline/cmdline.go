package cmdline

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// UsableCores returns the number of cores that the ranks may use together: the
// affinity mask, and the CPU quota of the control group. The runtime knows both,
// unless GOMAXPROCS was set by hand.
func UsableCores() int {
	if os.Getenv("GOMAXPROCS") != "" {
		return runtime.NumCPU()
	}
	return min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
}

// mpiFlags are those that users of MPI type with one dash.
var mpiFlags = []string{"-ppn", "-hostfile", "-host", "-oversubscribe"}

// Rewrite turns -np, which users of MPI type, into --np, and some others likewise,
// where flags has them. It stops at the first argument that is no flag: what
// follows may be a program's own.
func Rewrite(args []string, flags *pflag.FlagSet) []string {
	out := append([]string(nil), args...)
	for i := 0; i < len(out); i++ {
		arg := out[i]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			break
		}
		if rest, ok := strings.CutPrefix(arg, "-np"); ok {
			if arg = "--np"; rest != "" {
				arg += "=" + strings.TrimPrefix(rest, "=")
			}
		}
		if name, _, _ := strings.Cut(arg, "="); slices.Contains(mpiFlags, name) && flags.Lookup(name[1:]) != nil {
			arg = "-" + arg
		}
		out[i] = arg
		if takesNext(arg, flags) {
			i++
		}
	}
	return out
}

// Plain says of an error of pflag's Parse which kind of number a flag wants, in place of the words
// of package strconv.
func Plain(err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if !errors.As(err, &invalid) || !errors.As(err, &number) {
		return err
	}
	want := "a number"
	switch f := invalid.GetFlag(); f.Value.Type() {
	case "int":
		want = "a whole number"
	case "intSlice":
		want = "whole numbers with commas between them"
	case "bool":
		want = "true or false"
	}
	return fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
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
