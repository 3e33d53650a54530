package report

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/draw"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// sample returns the page of a job of eight ranks on two hosts, of which one was lost and started again.
func sample() *page {
	g, _ := topo.Machine("dgx1v")
	p := &page{
		Program: "./train", Command: "treerun -H a:4,b:4 --on-failure respawn --report report.html ./train --epochs 3 <b>",
		Job: "wccwouqefo6vk", Version: "v0.1.0", Began: "2026-11-30 20:09:12 UTC", Took: 42.7, Code: 0,
		Outcome:  "ended well, after the loss of a process",
		Hosts:    []host{{"a", "0-3", "the launcher's clock"}, {"b", "4-7", "its clock is known within 41 µs"}},
		Totals:   totals{Calls: 163_840, Bytes: 3 << 38, InCalls: 0.31, Waited: 0.083},
		Pictures: []picture{{"the graph of the ranks", "a graph of 8 ranks", draw.SVG(g, draw.Plan{Title: "dgx1v"})}},
		Calls: []callRow{
			{Call: "AllReduce", From: 4, To: 8, Calls: 81_920, Bytes: 81_920 * 4, Mean: 4.1e-6, Best: 2.9e-6, Predicted: 3.05e-6,
				Waited: 0.2, Sampled: true, Bus: 0.0017},
			{Call: "AllReduce", From: 16 << 20, To: 32 << 20, Calls: 1280, Bytes: 1280 << 24, Mean: 8.8e-3, Best: 7.9e-3,
				Predicted: 7.2e-3, Bus: 3.33, Bound: 0.81, Waited: 4.71},
			{Call: "Barrier", Calls: 24, Mean: 12e-6, Best: 4e-6, Waited: 0.01},
		},
		Matrix: &matrix{Rows: []int{0, 1, 5}, Columns: []int{3, 6}, LeftOut: 2,
			Cells: [][]float64{{2.1, 0}, {1.7, 0.03}, {0, 0.4}}},
		Late: []late{{3, "a", 3.8, 2, 0.9}, {6, "b", 0.43, 2, 0.1}},
		Slow: []slow{
			{Rank: 1, Call: "AllReduce", Comm: "world", Algorithm: "packing:low", Number: 641, Bytes: 16 << 20, At: 12.4,
				Took: 2.13, Waited: 2.1, Predicted: 7.2e-3, For: "3"},
			{Rank: 5, Call: "Recv", Comm: "rows", Bytes: 4096, At: 20, Took: 0.4, Waited: 0.4, For: "6", Failed: true},
		},
		Phases: []phase{{"making communicator", false, 8, 8, 0.2, 0.31, 7}, {"epoch", true, 24, 8, 12.1, 14.9, 3}},
		Faults: []fault{{18.2, 6, "b", "was killed by SIGKILL", "Its second process began 0.4 s later on b."}},
		Notes:  []string{"Times of calls below 32 KiB are those of samples."},
	}
	for r := range 8 {
		p.Ranks = append(p.Ranks, rank{Rank: r, PID: 4200 + r, Host: string(rune('a' + r/4)), Outcome: "exited with code 0",
			To: 42.6, Setup: 0.8, Moving: 9.6 + float64(r)/10, Wait: 3.4 - float64(r)/3, Calls: 20480, Bytes: 3 << 35})
	}
	p.Ranks[6] = rank{Rank: 6, PID: 4206, Host: "b", Outcome: "killed by SIGKILL", Failed: true, To: 18.2, Setup: 0.8,
		Moving: 4, Wait: 0.3, Calls: 9000, Bytes: 1 << 34}
	p.Ranks = append(p.Ranks, rank{Rank: 6, Attempt: 1, PID: 4310, Host: "b", Outcome: "exited with code 0", From: 18.6,
		To: 42.6, Setup: 0.5, Moving: 5, Wait: 0.1, Calls: 11000, Bytes: 1 << 35})
	return p
}

// TestPage: the page of a sample is as it was; a diff is looked at in a browser before -rewrite.
func TestPage(t *testing.T) {
	got, err := html(sample())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "sample.html")
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(got) != string(want) {
		t.Errorf("the page differs from %s (%v): look at it in a browser, then -rewrite", file, err)
	}
}

// TestTexts: texts of users are shown as text on the page, whatever they contain.
func TestTexts(t *testing.T) {
	const bad = `</style><script>alert(1)</script>"'>&`
	p := sample()
	p.Program, p.Command, p.Job, p.Outcome, p.Cause, p.Graph = bad, bad, bad, bad, bad, bad
	p.Hosts[0] = host{bad, bad, bad}
	p.Ranks[0].Host, p.Ranks[0].Outcome, p.Ranks[1].Why = bad, bad, bad
	p.Pictures[0].Title, p.Pictures[0].About = bad, bad
	p.Calls[0].Call, p.Slow[0].Call, p.Slow[0].Comm, p.Slow[0].Algorithm = bad, bad, bad, bad
	p.Phases[0].Name, p.Faults[0].What, p.Faults[0].Host, p.Faults[0].Became = bad, bad, bad, bad
	p.Notes[0] = bad
	got, err := html(p)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), "<script"); n != 1 {
		t.Errorf("%d scripts on the page", n)
	}
	if n := strings.Count(string(got), "</style>"); n != 1 {
		t.Errorf("%d ends of styles on the page", n)
	}
}

// TestEmpty: a job that has recorded nothing has a page.
func TestEmpty(t *testing.T) {
	got, err := html(&page{Program: "x", Failed: true, Outcome: "exit code 3", Cause: "rank 0 failed first"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No call was recorded", "No rank waited for another", "No process was lost",
		"rank 0 failed"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(string(got), "NaN\"") || strings.Contains(string(got), "ZgotmplZ") {
		t.Errorf("a value could not be shown:\n%s", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(0), "0"}, {duration(3.05e-6), "3.05 µs"}, {duration(123.4e-6), "123 µs"}, {duration(0.0123), "12.3 ms"},
		{duration(2), "2.00 s"}, {duration(99.96), "1 min 39 s"}, {duration(7325), "2 h 02 min"},
		{percent(0), "0.0 %"}, {percent(0.0001), "< 0.1 %"}, {percent(0.05), "5.0 %"}, {percent(1), "100 %"},
		{count(12), "12"}, {count(1234567), "1\u202f234\u202f567"}, {ratio(3, 2), "1.50×"}, {ratio(3, 0), "–"},
		{size(383479200), "366 MiB"}, {size(5), "5 B"}, {size(1 << 40), "1 TiB"}, {size(1536), "1.50 KiB"},
		{cut(1.5), "100.00"}, {cut(-1), "0.00"}, {rate(0), "–"}, {rate(85.71), "85.7"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
