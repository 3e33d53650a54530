package cmdline

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/numbers"
)

// someFlags has flags with and without values, with and without short forms.
func someFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet("some", pflag.ContinueOnError)
	f.VarP(Ranks(new(int)), "np", "n", "")
	f.StringArrayP("export", "x", nil, "")
	f.BoolP("tag-output", "l", false, "")
	f.BoolP("verbose", "v", false, "")
	f.Bool("dry-run", false, "")
	f.Var(Time(new(time.Duration), 0), "timeout", "")
	return f
}

func TestDoubleDashes(t *testing.T) {
	for in, want := range map[string]string{
		"-np 8 prog -np 9":              "--np 8 prog -np 9",
		"-np=8 prog":                    "--np=8 prog",
		"-np8 prog":                     "--np=8 prog",
		"-v -l -np 8 prog -np 9":        "-v -l --np 8 prog -np 9",
		"-n 4 prog -np 9":               "-n 4 prog -np 9",
		"-n4 prog -np 9":                "-n4 prog -np 9",
		"-vn 4 -np 5 prog -np 9":        "-vn 4 --np 5 prog -np 9",
		"-x -np -np 5 prog":             "-x -np --np 5 prog", // -np is the value of -x
		"--timeout 5 -np 5 prog -np 9":  "--timeout 5 --np 5 prog -np 9",
		"--timeout=5 -np 5 prog -np 9":  "--timeout=5 --np 5 prog -np 9",
		"--tag-output=false -np 5 prog": "--tag-output=false --np 5 prog",
		"--dry-run -np 5 prog":          "--dry-run --np 5 prog",
		"-- -np 5":                      "-- -np 5",
		"- -np 5":                       "- -np 5",
		"prog -np 5":                    "prog -np 5",
		"-np":                           "--np",
		"-dry-run -timeout=5 prog":      "--dry-run --timeout=5 prog",
		"-timeout 5 -np 5 prog":         "--timeout 5 --np 5 prog",
		"-lv prog":                      "-lv prog",
		"-npx prog":                     "-npx prog",
		"-npernode 2 -np 5 prog":        "--npernode 2 -np 5 prog", // whether the unknown flag takes a value is not known
		"-npernode=2 -np 5 prog":        "--npernode=2 --np 5 prog",
	} {
		got := strings.Join(doubleDashes(strings.Fields(in), someFlags(), "npernode x-dist: -n N\n"), " ")
		if got != want {
			t.Errorf("rewrite(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Second, "0": 0, "2.5s": 2500 * time.Millisecond, "15m": 15 * time.Minute, "1e2": 100 * time.Second,
	} {
		var d time.Duration
		if err := Time(&d, 0).Set(text); err != nil || d != want {
			t.Errorf("%s is %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "Inf", "-Inf", "1e10", "5 s"} {
		var d time.Duration
		if err := Time(&d, 0).Set(text); err == nil {
			t.Errorf("%q is taken for %v", text, d)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"8": 8, "0.5K": 512, "3m": 3 << 20, "1T": 1 << 40, "16T": numbers.MaxBytes,
		"16384G": numbers.MaxBytes} {
		var s Size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%s is %d, %v; want %d", text, s, err, want)
		}
	}
	if s := Size(numbers.MaxBytes); s.String() != "16T" {
		t.Errorf("the limit is written %s", &s)
	}
	for _, text := range []string{"", "T", "17T", "0", "1P", "0.3", "-1T"} {
		var s Size
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "16T") {
			t.Errorf("%q is %d, %v", text, s, err)
		}
	}
}

// A value that is not a number is an error in words, with the flag and the text.
func TestPlainError(t *testing.T) {
	for in, want := range map[string]string{
		"--count=x":   `--count "x": want a whole number`,
		"--part=1,5":  `--part "1,5": want a number`,
		"--list=1,b":  `--list "1,b": want whole numbers with commas between them`,
		"--yes=maybe": `--yes "maybe": want true or false`,
		"--nothing":   "unknown flag: --nothing",
		"--cuont=5":   "unknown flag: --cuont (did you mean --count?)",
		"-prt":        "unknown flag: -prt (did you mean --part?)",
		"-q":          "unknown flag: -q",
		"--per_node":  "unknown flag: --per_node (hint: here, --count N)",
		"-c3":         "unknown flag: -c (hint: here, -n N)",
		"-cpus=3":     "unknown flag: --cpus (hint: here, -n N)",
		"--how=c:3":   `--how "c:3": want a or b (hint: here, --list)`,
		"--text=":     "--text has no value: is a variable in it not set?",
		"--to=":       "--to names no file: is a variable in it not set?",
		"--all=a,,b":  "--all has no value: is a variable in it not set?",
	} {
		f := pflag.NewFlagSet("some", pflag.ContinueOnError)
		f.Int("count", 0, "")
		f.Float64("part", 0, "")
		f.IntSlice("list", nil, "")
		f.Bool("yes", false, "")
		f.Var(LowerWord(new(string), "a", "b"), "how", "")
		f.Var(Text(new(string), strconv.Atoi), "text", "")
		f.String("to", "", "to this `FILE`")
		f.StringSlice("all", nil, "")
		const others = "x per-node: --count N\nc cpus: -n N\nhow=c: --list\n"
		if err := Parse(f, []string{in}, others); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"topo", "plan", "sim", "bench", "check", "version"}
	for word, want := range map[string]string{"tpo": "topo", "TOPO": "topo", "bnech": "bench", "versoin": "version",
		"ls": "", "python3": "", "": "", "plann": "plan", "chek": "check", "simulate": ""} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

// A name is nearest to itself with a letter more, less, changed, or swapped with the next.
func TestNearestToItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringMatching(`[ab]{2,6}`).Draw(t, "a")
		i := rapid.IntRange(0, len(a)-2).Draw(t, "at")
		for _, word := range []string{a[:i] + "c" + a[i:], a[:i] + "c" + a[i+1:], a[:i] + a[i+1:],
			a[:i] + a[i+1:i+2] + a[i:i+1] + a[i+2:]} {
			if got := Nearest(word, []string{a}); got != a {
				t.Fatalf("%q is nearest to %q", word, got)
			}
		}
	})
}

// FuzzSize: every size that Set reads is formatted so that Set reads it again.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"8", "64M", "1g", "0.5K", "1e3", "-1", "", "NaN", "16385G", "Inf"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Size
		if s.Set(text) != nil {
			return
		}
		if s < 1 || s > numbers.MaxBytes || again.Set(s.String()) != nil || again != s {
			t.Errorf("%q is %d, written %s, read again %d", text, s, &s, again)
		}
	})
}
