//go:build linux

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/collective/plan"
)

func parsed(t *testing.T, line string) *Options {
	t.Helper()
	o, err := parse(strings.Fields(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return o
}

func TestParse(t *testing.T) {
	o := parsed(t, "-np 4 --collective broadcast,allreduce -b 1K -e 64M -f 8 -i 7 -w 2 -c 0 -d double,int8 -o max -r 3 "+
		"--in-place --stream --json - --plot p.svg --wide=false --max-seconds 0.5")
	if o.Ranks != 4 || !slices.Equal(o.Collectives, []string{"broadcast", "allreduce"}) || o.Begin != 1<<10 ||
		o.End != 64<<20 ||
		o.Factor != 8 || o.Iterations != 7 || o.Warmup != 2 || o.Check || fmt.Sprint(o.Types) != "[{float64 8} {int8 1}]" ||
		!slices.Equal(o.Ops, []string{"max"}) || o.Root != 3 || !slices.Equal(o.Passes, []bool{true}) || !o.Stream ||
		o.JSON != "-" || o.Plot != "p.svg" || o.Wide == nil || *o.Wide || o.MaxSeconds != 0.5 {
		t.Errorf("parsed %+v", *o)
	}
	o = parsed(t, "")
	if o.Ranks != 0 || !slices.Equal(o.Collectives, []string{"allreduce"}) || o.Begin != 8 || o.End != 256<<20 ||
		o.Factor != 2 ||
		o.Iterations != 20 || o.Warmup != 5 || !o.Check || fmt.Sprint(o.Types) != "[{float32 4}]" ||
		!slices.Equal(o.Ops, []string{"sum"}) ||
		o.Root != 0 || !slices.Equal(o.Passes, []bool{false, true}) || o.Stream || o.Wide != nil {
		t.Errorf("the defaults are %+v", *o)
	}
	o = parsed(t, "--collective all -d all -o all --in-place=no")
	if len(o.Collectives) != len(allCollectives) || len(o.Types) != 12 || len(o.Ops) != 5 ||
		!slices.Equal(o.Passes, []bool{false}) {
		t.Errorf("all is %+v", *o)
	}
}

// The value of --in-place may be an argument of its own.
func TestInPlace(t *testing.T) {
	for line, want := range map[string][]bool{
		"--in-place no": {false}, "-in-place no -n 2": {false}, "-n 2 --in_place yes": {true},
		"--in-place both": {false, true}, "--in-place -n 2": {true}, "--in-place": {true}, "--in-place=no": {false},
		"--in-place no --in-place yes": {true},
	} {
		if o := parsed(t, line); !slices.Equal(o.Passes, want) {
			t.Errorf("%s: passes %v, want %v", line, o.Passes, want)
		}
	}
}

// Wrong usage has its exit code, and the error describes valid usage.
func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"surplus":                         `unexpected argument "surplus"`,
		"--in-place maybe":                `unexpected argument "maybe"`,
		"-np 0":                           "whole number",
		"--collective scan":               `--collective "scan": want all, or some of allreduce`,
		"--collective barrier,barrier":    "is given twice",
		"--collective all,barrier":        `"all"`,
		"-d half,float16":                 "is given twice",
		"-d complex":                      `"complex"`,
		"-o mean":                         `"mean": want all, or some of sum`,
		"-b 0":                            "want a size",
		"-b 2M -e 1M":                     "-b 2M is larger than -e 1M",
		"-f 1":                            "want a factor",
		"-f NaN":                          "want a factor",
		"-i 0":                            "want a whole number from 1 to",
		"-w -1":                           "want a whole number from 0 to",
		"-c 2":                            "want a whole number from 0 to 1",
		"--in-place=maybe":                "want yes, no or both",
		"--max-seconds -1":                "seconds",
		"--max-seconds NaN":               "seconds",
		"--plot rows.png":                 ".svg",
		"--json=":                         "--json names no file",
		"--plot=":                         "--plot names no file",
		"--json same.svg --plot same.svg": "the same file",
		"--inflight 0":                    "--inflight",
		"--inflight 1,1001":               "from 1 to 1000",
		"--inflight many":                 "--inflight \"many\": want whole numbers with commas between them",
		"--nothing":                       "unknown flag",
		"--collective= -b 8":              "--collective",
		"--density 0.1":                   "for sparse collectives",
		"--collective sparse-allreduce --density 1.5":    "want parts from 0 to 1",
		"--collective sparse-allreduce --density 0.1,.1": "is given twice",
		"--collective sparse-allreduce --overlap some":   `"some": want all, or some of full`,
		"--collective sparse-allreduce --block 0":        "want a whole number from 1 to",
		"--collective sparse-allreduce --fill 0":         "--fill 0",
		"--collective sparse-allreduce --fill 1.1":       "--fill 1.1",
		"--fill .5": "for sparse collectives",
		"--collective sparse-allreduce --form ring":                  `want trees, aggregators, shared, dense or compact`,
		"--collective sparse-allreduce --form compact":               "is for --device cuda",
		"--collective sparse-allreduce --aggregators 65":             "from 1 to 64",
		"--collective sparse-allreduce --aggregators -1":             "from 1 to 64",
		"--collective sparse-allreduce --aggregators many":           "many",
		"--collective sparse-allreduce --aggregators 2 --form trees": "is for --form aggregators",
		"--aggregators 2":                           "for sparse collectives",
		"--form trees":                              "for sparse collectives",
		"--device cuda -d int16":                    `"int16": want all, or some of int8`,
		"--collective sparse-allreduce -d int8":     "take the types int32",
		"--collective sparse-allreduce -o prod":     "the operations sum",
		"--collective sparse-allreduce --explain 8": "has no plan",
	} {
		_, err := parse(strings.Fields(line))
		if cmdline.ExitCode(err) != cmdline.ExitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (code %d), want %q", line, err, cmdline.ExitCode(err), want)
		}
	}
	for root, good := range map[string]bool{"0": true, "3": true, "4": false, "-1": false} {
		if err := parsed(t, "-r "+root).checkRanks(4); (err == nil) != good || err != nil &&
			cmdline.ExitCode(err) != cmdline.ExitUsage {
			t.Errorf("root %s of 4 ranks: %v", root, err)
		}
	}
}

// FuzzParse: every command line gives valid options with cases, or an error of usage.
func FuzzParse(f *testing.F) {
	f.Add("-np 4 --collective all -b 8 -e 1K", 4)
	f.Add("-d all -o all -f 1.01 --in-place", 1)
	f.Add("-f 1e6 -b 1 -e 16384G", 1000)
	f.Fuzz(func(t *testing.T, line string, np int) {
		o, err := parse(strings.Split(line, " "))
		if err != nil {
			if cmdline.ExitCode(err) != cmdline.ExitUsage {
				t.Fatalf("%q: %v has code %d", line, err, cmdline.ExitCode(err))
			}
			return
		}
		if o.Help || np < 1 || np > 1<<16 {
			return
		}
		for _, c := range o.cases(np) {
			if c.Count < 0 || c.Bytes < 0 || c.Count == 0 != c.empty() || c.Bytes > int64(o.End) && c.Count != 1 {
				t.Fatalf("%q: impossible case %+v", line, c)
			}
		}
	})
}

// The cases come in the order of the command line, sizes within, passes within.
func TestCases(t *testing.T) {
	var got []string
	for _, c := range parsed(t, "--collective barrier,broadcast,allreduce -b 8 -e 100 -f 8 -d int8,double -o sum,max -r "+
		"1").cases(2) {
		got = append(got, fmt.Sprintf("%s %s %s root=%d bytes=%d count=%d %v", c.Name, c.Type.Name, c.Op, c.Root, c.Bytes,
			c.Count, c.InPlace))
	}
	want := []string{"barrier none none root=-1 bytes=0 count=0 false"}
	add := func(name, op string, root, width int, typ string) {
		for _, bytes := range []int{8, 64} {
			for _, inPlace := range []bool{false, true} {
				want = append(want, fmt.Sprintf("%s %s %s root=%d bytes=%d count=%d %v", name, typ, op, root, bytes, bytes/width,
					inPlace))
			}
		}
	}
	add("broadcast", "none", 1, 1, "int8")
	add("broadcast", "none", 1, 8, "float64")
	for _, typ := range []Type{{"int8", 1}, {"float64", 8}} {
		for _, op := range []string{"sum", "max"} {
			add("allreduce", op, -1, typ.Size, typ.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("cases:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Sparse collectives are measured with every density and overlap, and with the types
// and operations that they take.
func TestSparseCases(t *testing.T) {
	o := parsed(t, "--collective sparse-allreduce --density 1,.25,0 --overlap all -d int8,float32 -o prod,max -b 1M -e "+
		"1M --in-place=no")
	var got []string
	for _, c := range o.cases(4) {
		got = append(got, fmt.Sprint(c.Type.Name, " ", c.Op, " ", c.Density, " ", c.Overlap))
	}
	want := []string{"float32 max 1 full", "float32 max 0.25 full", "float32 max 0.25 random", "float32 max 0.25 none",
		"float32 max 0 full"}
	if !slices.Equal(got, want) {
		t.Errorf("cases %q, want %q", got, want)
	}
	c := o.cases(4)[1]
	row := Row{Collective: c.Name, NP: 4, Bytes: c.Bytes, Count: c.Count, Type: "float32", Op: "max", Root: -1,
		InFlight: 1, Sparse: &Sparse{Density: 0.25, Overlap: "full"}}
	if !row.matches(&c, 4) {
		t.Errorf("%+v does not match its case", row)
	}
	if row.Sparse.Overlap = "none"; row.matches(&c, 4) {
		t.Error("a row matches the case of another overlap")
	}
}

// A message in parts has a whole count for every rank, at least 1, and sizes
// that become one are measured once.
func TestParts(t *testing.T) {
	for _, c := range []struct{ bytes, count, whole int64 }{{1, 1, 24}, {24, 1, 24}, {47, 1, 24}, {48, 2, 48},
		{1000, 41, 984}} {
		k := Case{Collective: &Collective{Kind: plan.AllGather}, Type: Type{"float64", 8}}
		if k.resize(c.bytes, 3); int64(k.Count) != c.count || k.Bytes != c.whole {
			t.Errorf("%d bytes over 3 ranks: count %d, %d bytes; want %d, %d", c.bytes, k.Count, k.Bytes, c.count, c.whole)
		}
	}
	cases := parsed(t, "-b 1 -e 32 -d double --in-place=no").cases(3)
	var got []int64
	for _, c := range cases {
		got = append(got, c.Bytes)
	}
	if !slices.Equal(got, []int64{8, 16, 32}) {
		t.Errorf("sizes %v", got)
	}
}

// Calls in flight have buffers of their own, a cache line apart, and come by number; a collective that cannot be in
// flight is measured once.
func TestInFlight(t *testing.T) {
	cases := parsed(t, "--collective alltoall,sendrecv -b 100 -e 100 -d int8 --inflight 1,50 --in-place=no").cases(3)
	if len(cases) != 3 || cases[0].Calls != 1 || cases[1].Calls != 50 || cases[2].Name != "sendrecv" ||
		cases[2].Calls != 1 {
		t.Fatalf("cases %+v", cases)
	}
	if s := cases[1].stride(3); s != 128 {
		t.Errorf("the buffers of 99 bytes are %d apart, want 128", s)
	}
	if n := elements(cases, Type{"int8", 1}, 3); n != 50*128 {
		t.Errorf("50 calls need %d elements", n)
	}
}

func TestMemory(t *testing.T) {
	cases := parsed(t, "-b 8 -e 1M -d int8,float64 --collective allreduce").cases(4)
	if n := elements(cases, Type{"float64", 8}, 4); n != 1<<17 {
		t.Errorf("%d elements for 1 MiB of float64", n)
	}
	if m := memoryOf(cases, 4); m != 4*2<<20 {
		t.Errorf("4 ranks need %d bytes for messages of 1 MiB, want two buffers each", m)
	}
}

// The bus bandwidths are those of nccl-tests.
func TestBus(t *testing.T) {
	for name, want := range map[string]float64{"allreduce": 15, "reduce": 10, "broadcast": 10, "barrier": 0,
		"allgather": 7.5, "reducescatter": 7.5, "alltoall": 7.5, "gather": 7.5, "scatter": 7.5, "sendrecv": 10,
		"sparse-allreduce": 15} {
		if got := 10 * find(name).busFactor(4); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: busbw %g of algbw 10 on 4 ranks, want %g", name, got, want)
		}
	}
	for _, c := range []struct {
		name    string
		inPlace bool
		want    float64
	}{
		{"allreduce", false, 2000}, {"allreduce", true, 2000}, {"broadcast", false, 1125}, {"broadcast", true, 1000},
		{"gather", false, 250}, {"gather", true, 218.75}, {"alltoall", true, 1750}, {"barrier", false, 0},
	} {
		if got := find(c.name).traffic(1000, c.inPlace, 8); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s of 1000 bytes, in place %v, must move %g per rank, want %g", c.name, c.inPlace, got, c.want)
		}
	}
}

// FuzzParseRecord: a line is a record with either ranks or a row, or an error.
func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"ranks":[{"pid":1,"host":"a","device":"b"}]}`))
	f.Add([]byte(`{"row":{"collective":"allreduce","np":2,"time_us":1.5,"wrong":null}}`))
	f.Add([]byte(`{"row":{},"ranks":[{}]}`))
	f.Add([]byte(`{}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRecord(line)
		if err != nil {
			if r != nil || !strings.Contains(err.Error(), "rank 0 sent") {
				t.Fatalf("%q: %v, %v", line, r, err)
			}
			return
		}
		if (r.Row == nil) == (len(r.Ranks) == 0) {
			t.Fatalf("%q says %+v", line, r)
		}
	})
}
