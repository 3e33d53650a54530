//go:build linux

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/membership"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
)

func TestParse(t *testing.T) {
	o, err := parse(strings.Fields("-np 4 -x A=1 -x B*,C --timeout 1.5 --shutdown-timeout 2m --wdir d -v prog -v " +
		"--timeout 9"))
	if err != nil {
		t.Fatal(err)
	}
	if o.job.Size != 4 || !slices.Equal(o.exports.variables, []string{"A=1", "B*,C"}) ||
		o.job.Timeout != 1500*time.Millisecond ||
		o.job.ShutdownTimeout != 2*time.Minute || o.job.Dir != "d" || !o.verbose ||
		o.job.Program != "prog" || !slices.Equal(o.job.Args, []string{"prog", "-v", "--timeout", "9"}) {
		t.Errorf("parsed %+v", o)
	}
	if o, err = parse([]string{"prog"}); err != nil || o.job.Size != 0 || o.job.Timeout != 0 ||
		o.job.ShutdownTimeout != 10*time.Second {
		t.Errorf("defaults: %+v, %v", o, err)
	}
}

func TestTag(t *testing.T) {
	rank := output.Tag{Rank: true}
	for _, c := range []struct {
		args string
		n    int
		want output.Tag
	}{
		{"prog", 1, output.Tag{}}, {"prog", 2, rank}, {"-l prog", 1, rank}, {"--tag-output prog", 1, rank},
		{"--tag-output=false prog", 2, output.Tag{}}, {"--tag-output=host,time prog", 2, output.Tag{Host: true, Time: true}},
	} {
		o, err := parse(strings.Fields(c.args))
		if err != nil || o.tag(c.n) != c.want {
			t.Errorf("%s with %d ranks: tag %+v, want %+v (%v)", c.args, c.n, o.tag(c.n), c.want, err)
		}
	}
	if _, err := parse([]string{"--tag-output=rank,node", "prog"}); err == nil ||
		!strings.Contains(err.Error(), "want a list of rank, host and time") {
		t.Errorf("a wrong word: %v", err)
	}
}

// A flag of the command line takes back those of the variable that cannot stand beside it, and no other.
func TestTakenBack(t *testing.T) {
	for _, c := range []struct{ variable, line, back, stays string }{
		{"--host a", "--nnodes 2", "host", ""},
		{"--rankfile f --push --np 2", "--node-rank 1", "rankfile push", "np"},
		{"--launch-agent a", "--ssh-args -4", "launch-agent", ""},
		{"--map-by numa --ppn 2 --bind-to core --cpus-per-rank 2", "--rankfile f", "map-by ppn bind-to cpus-per-rank", ""},
		{"--rankfile f", "--map-by numa", "rankfile", ""},
		{"--rankfile f", "--ppn 2", "rankfile", ""},
		{"--rankfile f", "--bind-to core", "rankfile", ""},
		{"--cpus-per-rank 2 --map-by numa", "--bind-to none", "cpus-per-rank map-by", ""},
		{"--cpus-per-rank 2 --map-by numa", "--bind-to core", "", "cpus-per-rank map-by"},
		{"--bind-to none --rankfile f", "--cpus-per-rank 2", "bind-to rankfile", ""},
		{"--bind-to core", "--cpus-per-rank 2", "", "bind-to"},
		{"--gpus 0,1 --ranks-per-gpu 2", "--gpu-bind none", "gpus ranks-per-gpu", ""},
		{"--gpu-bind none", "--gpus 0", "gpu-bind", ""},
		{"--on-failure respawn --min-np 2 --spares 1", "--on-failure restart", "min-np", "spares"},
		{"--on-failure respawn --max-restarts 2 --min-np 2", "--on-failure shrink", "max-restarts", "min-np"},
	} {
		t.Setenv(cmdline.FlagsVariable, c.variable)
		o, err := parse(append(strings.Fields(c.line), "prog"))
		if err != nil {
			t.Errorf("%s, then %s: %v", c.variable, c.line, err)
			continue
		}
		for _, name := range strings.Fields(c.back) {
			if o.flags.Changed(name) {
				t.Errorf("%s, then %s: --%s holds", c.variable, c.line, name)
			}
		}
		for _, name := range strings.Fields(c.stays) {
			if !o.flags.Changed(name) {
				t.Errorf("%s, then %s: --%s is taken back", c.variable, c.line, name)
			}
		}
	}
}

// An error about the value of a flag names both, and what the flag wants; so does that about an empty value.
func TestWrongValues(t *testing.T) {
	anyText := []string{"host", "hostfile", "rankfile", "launch-agent", "ssh-args", "iface", "gpus", "key-file", "graph",
		"plan", "export", "env-file", "wdir", "output-dir", "result", "pprof", "trace", "report"}
	check := func(name, value, want string) {
		t.Helper()
		if _, err := parse([]string{"-np", "2", "--" + name + "=" + value, "true"}); err == nil ||
			cmdline.ExitCode(err) != cmdline.ExitUsage || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("--%s=%s: %v, want %s", name, value, err, want)
		}
	}
	newOptions().flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(anyText, f.Name) {
			check(f.Name, "? ", "--"+f.Name+` "? ": `)
		}
		check(f.Name, "", "--"+f.Name+" ")
	})
	check("launch-agent", "rsh", `--launch-agent "rsh": want {host} in the command`)
	check("metrics", "node1", `--metrics "node1": want HOST:PORT, or :PORT for readers on this host`)
	check("map-by", "board", `--map-by "board": want slot, host, node, numa, socket or l3`)
	check("gpus", "", "--gpus has no value: is a variable in it not set?")
}

// Of a flag that is given twice the last value counts, also where it stands for the default.
func TestTwice(t *testing.T) {
	o, err := parse(append([]string{"--launch-agent", "rsh {host}"}, strings.Fields("-np 3 -np 2 --launch-agent ssh "+
		"--debug 0 --debug 1 --tag-output=host --tag-output=rank --stdin all --stdin 0 --on-failure shrink "+
		"--on-failure stop true")...))
	if err != nil {
		t.Fatal(err)
	}
	remote, err := o.place.Remote()
	if err != nil || o.job.Size != 2 || remote.Command != nil || !slices.Equal(o.job.Debug, []int{1}) ||
		o.job.Tag != (output.Tag{Rank: true}) || o.job.StdinRank != 0 || o.job.Lives.Policy != membership.Stop {
		t.Errorf("%v: %+v, command %q", err, o.job, remote.Command)
	}
}

// FuzzParse: every command line gives options or an error of usage, and the
// arguments after PROGRAM are unchanged.
func FuzzParse(f *testing.F) {
	f.Add("-np 8 -x A=b -- prog -np 9")
	f.Add("-np8 --timeout 1h -lv prog")
	f.Add("-vnp --np -np=")
	f.Add("-é -\xff --=")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		o, err := parse(args)
		if err != nil {
			if cmdline.ExitCode(err) != cmdline.ExitUsage {
				t.Fatalf("%q: %v has code %d", line, err, cmdline.ExitCode(err))
			}
			return
		}
		if o.help || o.version {
			return
		}
		if o.job.Size < 0 || o.job.Size > 1<<16 || o.job.Timeout < 0 || o.job.ShutdownTimeout < 0 {
			t.Fatalf("%q: parsed %+v", line, o)
		}
		if tail := args[len(args)-len(o.job.Args):]; !slices.Equal(tail, o.job.Args) || o.job.Program != tail[0] {
			t.Fatalf("%q: the program's arguments are %q", line, o.job.Args)
		}
	})
}

func TestEnvironment(t *testing.T) {
	list := func(variables ...string) []export {
		all, err := (&exports{variables: variables}).list()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	base := []string{"COLOR=red", "SHAPE=round", "NCCL_DEBUG=1"}
	env, remote, warnings, err := environment(base,
		list("COLOR=blue", "SIZE=a=b", "EMPTY=", "SHAPE", "NCCL_*", "COLOR=green"))
	want := []string{"SHAPE=round", "NCCL_DEBUG=1", "SIZE=a=b", "EMPTY=", "COLOR=green"}
	if err != nil || len(warnings) > 0 || !slices.Equal(env, want) {
		t.Errorf("environment: %q, %q, %v; want %q", env, warnings, err, want)
	}
	if want := []string{"SIZE=a=b", "EMPTY=", "SHAPE=round", "NCCL_DEBUG=1", "COLOR=green"}; !slices.Equal(remote, want) {
		t.Errorf("for other hosts: %q, want %q", remote, want)
	}
	if !slices.Equal(base, []string{"COLOR=red", "SHAPE=round", "NCCL_DEBUG=1"}) {
		t.Errorf("the base was changed to %q", base)
	}
	_, _, warnings, err = environment(base, list("NOWHERE", "NO*", "COL*"))
	if err != nil || len(warnings) != 2 {
		t.Errorf("warnings: %q, %v", warnings, err)
	}
	for _, x := range []string{"", "=1", "A*=1", "MASTER_PORT=1", "A\x00=1", "["} {
		if _, _, _, err := environment(base, list(x)); cmdline.ExitCode(err) != cmdline.ExitUsage {
			t.Errorf("-x %q: %v", x, err)
		}
	}
}

// The help text shows every flag, and has room for them.
func TestHelpShowsFlags(t *testing.T) {
	if strings.Count(helpText, "%") != 1 {
		t.Error("the help text does not have exactly one place for the flags")
	}
	o := newOptions()
	usages := cmdline.Usages(o.flags)
	o.flags.VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(usages, "--"+f.Name) || f.Usage == "" {
			t.Errorf("--%s is not explained", f.Name)
		}
	})
}

func TestQuote(t *testing.T) {
	for arg, want := range map[string]string{
		"": `""`, "plain": "plain", "--a=b": "--a=b", "two words": `"two words"`, "$HOME": `"$HOME"`, "a\nb": `"a\nb"`,
	} {
		if got := quote(arg); got != want {
			t.Errorf("quote(%q) = %s, want %s", arg, got, want)
		}
	}
}
