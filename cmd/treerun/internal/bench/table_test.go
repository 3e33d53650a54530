//go:build linux

package bench

import (
	"strings"
	"testing"
)

// The widths and roundings of nccl-tests.
func TestFigure(t *testing.T) {
	for _, c := range []struct {
		v     float64
		width int
		want  string
	}{
		{0, 7, "0.00"}, {0.126, 7, "0.13"}, {9.994, 6, "9.99"}, {999.99, 6, "999.99"}, {1000.5, 6, "1000.5"},
		{12345.6, 6, "12346"}, {123456, 6, "123456"},
		{1234567, 6, "1e+06"}, {9999.99, 7, "9999.99"}, {12345.67, 7, "12345.7"}, {1234567, 7, "1234567"},
		{123456789, 7, "1.2e+08"},
	} {
		if got := figure(c.v, c.width); got != c.want {
			t.Errorf("%g in %d columns is %s, want %s", c.v, c.width, got, c.want)
		}
	}
}

// printed sends rows through a table of the cases of a command line.
func printed(t *testing.T, line string, wide bool, change func(*Row)) string {
	t.Helper()
	o, err := parse(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	cases := o.cases(2)
	var b strings.Builder
	table := newTable(&b, o, 2, cases, wide)
	if err := table.Begin([]Process{{PID: 100, Host: "here", Device: "Fast Processor"},
		{PID: 101, Host: "here", Device: "Fast Processor"}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		r := &Row{
			Collective: c.Name, NP: 2, Bytes: c.Bytes, Count: c.Count, Type: c.Type.Name, Op: c.Op, Root: c.Root,
			InPlace: c.InPlace, InFlight: c.Calls,
			TimeUs: float64(c.Bytes) / 100 * float64(i+1), AlgbwGBs: 1.5, BusbwGBs: float64(i + 1), Wrong: new(int64),
			MeanUs: 3.25, LimitShare: 0.4567,
		}
		change(r)
		if err := table.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.End(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The complete output of nccl-tests, with the same columns.
func TestTable(t *testing.T) {
	got := printed(t, "-b 1K -e 1M -f 1024 --wide=false", false, func(*Row) {})
	const want = `# Collective test starting: allreduce
# nRanks 2 minBytes 1024 maxBytes 1048576 step: 1024(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
# time: each iteration from a barrier on, median of the slowest rank
#
# Using devices
#  Rank  0 Group  0 Pid    100 on       here device  0 [cpu] Fast Processor
#  Rank  1 Group  0 Pid    101 on       here device  1 [cpu] Fast Processor
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)        
        1024           256   float32     sum      -1    10.24    1.50    1.00       0    20.48    1.50    2.00       0
     1048576        262144   float32     sum      -1  31457.3    1.50    3.00       0  41943.0    1.50    4.00       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 2.5
#
# Collective test concluded: allreduce
#
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "#  Rank") && len(line) > 121 && !strings.HasPrefix(line, "# nRanks") {
			t.Errorf("more than 120 columns: %q", line)
		}
	}
}

// Values that are not measured are N/A in their columns, wrong elements fail the table, and the columns of the plan
// come last.
func TestRows(t *testing.T) {
	predicted := 12.34
	for name, c := range map[string]struct {
		line   string
		wide   bool
		change func(*Row)
		want   []string
	}{
		"in place only": {"-b 1K -e 1K --in-place", false, func(*Row) {}, []string{
			"        1024           256   float32     sum      -1      N/A     N/A     N/A     N/A    10.24    1.50    1.00   " +
				"    0\n",
		}},
		"not compared": {"-b 1K -e 1K --in-place=no -c 0", false, func(r *Row) { r.Wrong = nil }, []string{
			"        1024           256   float32     sum      -1    10.24    1.50    1.00     N/A      N/A     N/A     N/A   " +
				"  N/A\n",
			"validation: 0",
		}},
		"wrong": {"-b 1K -e 1K", false, func(r *Row) { *r.Wrong = 7 }, []string{
			"    1.50    1.00       7    20.48    1.50    2.00       7\n",
			"# Out of bounds values : 14 FAILED\n",
		}},
		"wide": {"-b 1K -e 1K", true, func(r *Row) { r.Plan, r.PredictedUs = "eight trees", &predicted }, []string{
			"#wrong     mean  predicted   limit  plan\n",
			"    2.00       0     3.25      12.34   45.67  eight trees\n",
		}},
		"sparse": {"--collective sparse-allreduce -b 1K -e 1K", true, func(r *Row) {
			r.Plan, r.PredictedUs = "shared", &predicted
			r.Sparse = &Sparse{Density: 0.01, Overlap: "random", Form: "shared", UnionDensity: 0.0199, SentBytes: 1234,
				TreesUs: 20, SharedUs: 12.34, DenseUs: 99.6}
		}, []string{"  12.34   45.67  shared: density 0.01, random overlap, 1.99 % in union, at most 1234 bytes sent; " +
			"predicted trees 20, shared 12, dense 100\n"}},
		"sparse as given": {"--collective sparse-allreduce -b 1K -e 1K", true, func(r *Row) {
			r.Sparse = &Sparse{Density: 0.01, Overlap: "random", Form: "trees", UnionDensity: 0.02, SentBytes: 12}
		}, []string{"  trees: density 0.01, random overlap, 2 % in union, at most 12 bytes sent\n"}},
		"plan not known": {"-b 1K -e 1K", true, func(*Row) {},
			[]string{"    2.00       0     3.25          -   45.67  -\n"}},
		"in flight": {"-b 1K -e 1K --inflight 50", false, func(r *Row) {},
			[]string{"# time: of 50 calls in flight together; each", " agg iters: 50 "}},
		"narrow": {"-b 1K -e 1K", false, func(r *Row) {}, []string{"#\n# --wide adds the mean, the plan, "}},
		"stream": {"-b 1K -e 1K --stream", false, func(r *Row) {}, []string{"# time: iterations back to back, mean\n"}},
	} {
		got := printed(t, c.line, c.wide, c.change)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, got)
			}
		}
	}
}

// Every number of calls in flight has a table of its own.
func TestInFlightTable(t *testing.T) {
	got := printed(t, "--collective allreduce,sendrecv -b 8 -e 8 --inflight 1,150", false, func(*Row) {})
	if strings.Count(got, "# Collective test starting: allreduce\n") != 2 ||
		strings.Count(got, "# Collective test starting: sendrecv\n") != 1 {
		t.Errorf("got\n%s", got)
	}
}

// Every collective has a table of its own, with its own average; the ranks are listed once, and a collective without
// data has one row.
func TestSections(t *testing.T) {
	got := printed(t, "--collective broadcast,barrier,allreduce -b 8 -e 8", false, func(*Row) {})
	for want, n := range map[string]int{
		"# Collective test starting: ": 3, "# Collective test concluded: ": 3, "# Using devices": 1, "#       size ": 3,
		"# Avg bus bandwidth    : 1.5\n": 1, "# Avg bus bandwidth    : 3\n": 1, "# Avg bus bandwidth    : 4.5\n": 1,
		"           0             0      none    none      -1 ": 1,
		"           8             2   float32    none       0 ": 1,
	} {
		if strings.Count(got, want) != n {
			t.Errorf("%q stands there %d times, want %d:\n%s", want, strings.Count(got, want), n, got)
		}
	}
}

func TestExplanation(t *testing.T) {
	price := 4.0
	p := &Row{Collective: "reduce", NP: 3, Bytes: 65536, Plan: "tree", Explained: &Explained{
		Candidates: []Candidate{{Plan: "tree", Us: 5.25, PredictedUs: &price}, {Plan: "direct", Us: 3}},
		By:         "price", Links: "Links allow much",
	}}
	want := `reduce of 64K (65536 bytes) on 3 ranks
          plan  predicted (us)   measured (us)
          tree            4.00            5.25  chosen by price
        direct               -            3.00
the quickest was direct
Links allow much
`
	if got := explanation(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
