package tuner

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
)

// feed gives a tuner the times of flat, tree and direct, size by size from 8 on
// in steps of 4, and returns what it chose.
func feed(t *testing.T, tn *Tuner, kind string, times ...[3]float64) []string {
	t.Helper()
	var chosen []string
	bytes := int64(8)
	for _, us := range times {
		p := &suite.Point{Collective: kind, NP: 4, Bytes: bytes, Candidates: []suite.Candidate{{Plan: "flat", Us: us[0]}, {Plan: "tree", Us: us[1]}, {Plan: "direct", Us: us[2]}}}
		name, err := tn.Add(p)
		if err != nil {
			t.Fatal(err)
		}
		chosen = append(chosen, name)
		bytes *= 4
	}
	return chosen
}

// A shape has to be more than 5 % quicker than the one before to take over.
func TestChoose(t *testing.T) {
	tn := New(4, 2)
	got := feed(t, tn, "allreduce",
		[3]float64{1, 2, 3},
		[3]float64{1, 0.96, 3}, // not by enough
		[3]float64{3, 2.9, 2},
		[3]float64{2.05, 2.04, 2}, // nor back
		[3]float64{1, 1, 2})
	if want := []string{"flat", "flat", "direct", "direct", "flat"}; !reflect.DeepEqual(got, want) {
		t.Errorf("chose %v, want %v", got, want)
	}
	want := []collective.TunedKind{{Collective: plan.AllReduce, Choices: []collective.TunedChoice{{BelowBytes: 128, Shape: "flat"}, {BelowBytes: 2048, Shape: "direct"}, {Shape: "flat"}}}}
	if got := tn.tuning.Collectives; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := len(tn.tuning.Measured); n != 15 {
		t.Errorf("%d figures are kept, want all 15", n)
	}
	if _, err := tn.Add(&suite.Point{Collective: "gather", Candidates: []suite.Candidate{{Plan: "direct"}}}); err != nil || len(tn.tuning.Collectives) != 1 {
		t.Errorf("what has one shape needs no choice: %v, %+v", err, tn.tuning.Collectives)
	}
	if _, err := tn.Add(&suite.Point{Collective: "sendrecv", Candidates: []suite.Candidate{{}}}); err == nil {
		t.Error("sendrecv has become a collective")
	}
}

// Collectives that are measured later join those in the file, or take the
// place of what stood there.
func TestStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	store := func(kind string, times [3]float64) *collective.Tuning {
		t.Helper()
		tn := New(4, 2)
		feed(t, tn, kind, times)
		if err := tn.Store(file); err != nil {
			t.Fatal(err)
		}
		back, err := collective.LoadTuning(file, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		return back
	}
	store("barrier", [3]float64{1, 2, 3})
	both := store("allreduce", [3]float64{2, 1, 3})
	if len(both.Collectives) != 2 || both.Collectives[0].Choices[0].Shape != "tree" || both.Collectives[1].Choices[0].Shape != "flat" || len(both.Measured) != 6 {
		t.Errorf("together they are %+v", both)
	}
	again := store("allreduce", [3]float64{3, 2, 1})
	if len(again.Collectives) != 2 || again.Collectives[0].Choices[0].Shape != "direct" || len(again.Measured) != 6 {
		t.Errorf("measured again they are %+v", again)
	}
}

// TREERUN_TUNE says where the file is; what ranks could not use is wrong usage.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv(collective.TuneVariable, "")
	kept, err := File(4, 2)
	if err != nil || !strings.HasPrefix(kept, dir) {
		t.Errorf("the file would be %s, %v", kept, err)
	}
	named := filepath.Join(dir, "new", "named.json")
	t.Setenv(collective.TuneVariable, named)
	if file, err := File(4, 2); err != nil || file != named {
		t.Errorf("the file would be %s, %v", file, err)
	}
	if left, err := os.ReadDir(filepath.Dir(named)); err != nil || len(left) > 0 {
		t.Errorf("the try has left %v, %v", left, err)
	}
	if err := Check(4, 2); exitcode.Of(err) != exitcode.Usage || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "TREERUN_TUNE="+named) {
		t.Errorf("no file: %v", err)
	}
	tn := New(4, 2)
	feed(t, tn, "barrier", [3]float64{1, 2, 3})
	if err := tn.Store(named); err != nil {
		t.Fatal(err)
	}
	if err := Check(4, 2); err != nil {
		t.Error(err)
	}
	if err := Check(2, 2); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "for 4 ranks, not 2") {
		t.Errorf("other ranks: %v", err)
	}
	if err := Check(1, 2); err != nil {
		t.Errorf("one rank: %v", err)
	}
	t.Setenv(collective.TuneVariable, dir)
	if _, err := File(4, 2); exitcode.Of(err) != exitcode.Usage || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
	t.Setenv(collective.TuneVariable, "off")
	if file, err := File(4, 2); err != nil || file != kept || Check(4, 2) != nil {
		t.Errorf("off: %s, %v", file, err)
	}
}

func TestText(t *testing.T) {
	price := 4.0
	p := &suite.Point{
		Collective: "reduce", NP: 3, Bytes: 65536, Chosen: "tree", By: "price", Links: "Links allow much",
		Candidates: []suite.Candidate{{Plan: "tree", Us: 5.25, PredictedUs: &price}, {Plan: "direct", Us: 3}},
	}
	want := `reduce of 64K (65536 bytes) on 3 ranks
          plan  predicted (us)   measured (us)
          tree            4.00            5.25  chosen by price
        direct               -            3.00
the quickest was direct
Links allow much
`
	if got := Explanation(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	want = `# reduce on 3 ranks, float32, in us: median, on the slowest rank
#       size          tree        direct  chosen
         64K          5.25          3.00  direct
`
	if got := Head(p) + Line(p, "direct"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
