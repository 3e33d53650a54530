package suite

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
)

func TestShapes(t *testing.T) {
	o := parsed(t, "--tune")
	if cases := o.Cases(4); !o.Shapes() || o.Begin != 8 || o.End != 64<<20 || o.Factor != 4 || len(o.Collectives) != 7 || len(cases) != 6*12+1 || cases[3].InPlace {
		t.Errorf("--tune measures %d cases, %+v", len(cases), *o)
	}
	if o = parsed(t, "--tune -e 1K -f 2 -n 7 --max-seconds 3 --collective barrier"); o.End != 1<<10 || o.Factor != 2 || o.Iterations != 7 || o.MaxSeconds != 3 || len(o.Cases(2)) != 1 {
		t.Errorf("what was said is %+v", *o)
	}
	if o = parsed(t, "--explain 64K"); len(o.Cases(2)) != 1 || o.Cases(2)[0].Bytes != 64<<10 || o.Cases(2)[0].InPlace || !o.Shapes() {
		t.Errorf("--explain measures %+v", o.Cases(2))
	}
	if parsed(t, "").Shapes() {
		t.Error("shapes are compared although nobody asked")
	}
	where := func(f *pflag.FlagSet) { f.String("where", "", "") }
	if o, err := Parse(strings.Fields("--explain 8 --where a,b"), where); err != nil || !o.Shapes() {
		t.Errorf("--explain does not go with a flag of the job: %v", err)
	}
	if _, err := Parse(strings.Fields("--tune --where a,b"), where); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "--tune does not go with --where") {
		t.Errorf("--tune with a flag of the job: %v", err)
	}
	for line, want := range map[string]string{
		"--tune --explain 8":                  "--explain does not go with --tune",
		"--tune --json x --stream":            "--tune does not go with --json, --stream",
		"--explain 8 -e 16":                   "--explain does not go with --end",
		"--explain 0":                         "want a size",
		"--tune --collective sendrecv":        "--tune: sendrecv has no plan",
		"--explain 1K --collective all":       "--explain: sendrecv has no plan",
		"--tune -b 1K -e 8":                   "-b 1K is larger than -e 8",
		"--explain 1K --collective scatter,x": `"x"`,
	} {
		if _, err := Parse(strings.Fields(line)); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if err := parsed(t, "--tune").CheckRanks(1); exitcode.Of(err) != exitcode.Usage {
		t.Errorf("one rank: %v", err)
	}
}
