package meter

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
)

func TestExplainFlags(t *testing.T) {
	o := parsed(t, "--explain 64K")
	if cases := o.Cases(2); len(cases) != 1 || cases[0].Bytes != 64<<10 || cases[0].InPlace || o.Iterations != 200 ||
		o.MaxSeconds != 1 {
		t.Errorf("--explain measures %+v, %+v", cases, *o)
	}
	if o = parsed(t, "--explain 1K -i 7 --max-seconds 3 --collective barrier"); o.Iterations != 7 || o.MaxSeconds != 3 ||
		len(o.Cases(2)) != 1 {
		t.Errorf("what was said is %+v", *o)
	}
	where := func(f *pflag.FlagSet) { f.String("where", "", "") }
	if o, err := Parse(strings.Fields("--explain 8 --where a,b"), where); err != nil || o.Explain != 8 {
		t.Errorf("--explain cannot be combined with a flag of the job: %v", err)
	}
	for line, want := range map[string]string{
		"--explain 8 --json x --stream":       "--explain cannot be combined with --json, --stream",
		"--explain 8 -e 16":                   "--explain cannot be combined with --end",
		"--explain 0":                         "want a size",
		"--explain 1K --collective all":       "--explain: sendrecv has no plan",
		"--explain 1K --collective scatter,x": `"x"`,
	} {
		if _, err := Parse(strings.Fields(line)); cmdline.ExitCode(err) != cmdline.ExitUsage ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if err := parsed(t, "--explain 8").CheckRanks(1); cmdline.ExitCode(err) != cmdline.ExitUsage {
		t.Errorf("one rank: %v", err)
	}
}
