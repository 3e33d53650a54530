package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// sample is a tuning that no price would choose: a single tree for all but the
// middle sizes of AllReduce, and for Broadcast.
func sample(ranks, cores int) *Tuning {
	return &Tuning{
		Version: TuningVersion, Host: "here", Processor: Processor(), Ranks: ranks, Cores: cores,
		Collectives: []TunedKind{
			{plan.AllReduce, []TunedChoice{{1024, "tree"}, {65536, "trees"}, {0, "tree"}}},
			{plan.Broadcast, []TunedChoice{{0, "tree"}}},
		},
		Measured: []TunedResult{{plan.AllReduce, 8, "tree", 1.25}, {plan.AllReduce, 8, "flat", 2}},
	}
}

func text(t *testing.T, v *Tuning) []byte {
	t.Helper()
	b, err := v.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is written is read, white space apart byte for byte, and nothing else is.
func TestTuningText(t *testing.T) {
	good := string(text(t, sample(4, 2)))
	back, err := ParseTuning([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if again := text(t, back); string(again) != good {
		t.Errorf("wrote %s, read and wrote %s", good, again)
	}
	if _, err := ParseTuning([]byte(strings.ReplaceAll(good, "\n", " \n\t"))); err != nil {
		t.Errorf("other white space: %v", err)
	}
	for _, c := range []struct{ old, new, want string }{
		{good, "", "no tuning file"},
		{good, `{"ranks":2}`, "no tuning file"},
		{`"treerun_tuning": 1`, `"treerun_tuning": 2`, "version 2, this treerun reads 1"},
		{`"ranks": 4`, `"ranks": 1`, "ranks is 1, want 2 to"},
		{`"ranks": 4`, `"ranks": 4, "ranks": 4`, "fields stand once"},
		{`"ranks": 4`, `"Ranks": 4`, "fields stand once"},
		{`"ranks": 4`, `"ranks": 4.0`, "ranks"},
		{`"ranks": 4`, `"ranks": 4, "nodes": 1`, `unknown field "nodes"`},
		{`"cores": 2`, `"cores": 0`, "cores is 0"},
		{`"host": "here"`, `"host": null`, "fields stand once"},
		{`"host": "here"`, `"host": "` + strings.Repeat("x", 300) + `"`, "host and processor have 300"},
		{`"below_bytes": 65536`, `"below_bytes": 1024`, "choices[1] ends at 1024 bytes, want more than 1024"},
		{`"below_bytes": 1024`, `"below_bytes": -1`, "choices[0] ends at -1"},
		{`"shape": "trees"`, `"shape": "ring"`, `choices[1] is shape "ring", want one of ["flat" "tree"`},
		{`"collective": "broadcast"`, `"collective": "allreduce"`, "collectives[1] is allreduce, which stands there twice"},
		{`"collective": "broadcast"`, `"collective": "scan"`, `"scan" is no kind`},
		{`"us": 1.25`, `"us": -1`, "measured[0]"},
		{`"us": 1.25`, `"us": 1.250`, "shortest form"},
		{good, good + "{}", "after top-level value"},
		{good, good + strings.Repeat(" ", MaxTuningBytes), "more than any tuning file"},
	} {
		if _, err := ParseTuning([]byte(strings.Replace(good, c.old, c.new, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s in place of %.40s: %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// FuzzParseTuning: whatever is read is valid, and is written as it was read.
func FuzzParseTuning(f *testing.F) {
	b, err := sample(4, 2).AppendJSON(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ParseTuning(b)
		if err != nil {
			return
		}
		out, err := v.AppendJSON(nil)
		if err != nil {
			t.Fatalf("read %s, and cannot write it: %v", b, err)
		}
		again, err := ParseTuning(out)
		if err != nil {
			t.Fatalf("wrote %s, and cannot read it: %v", out, err)
		}
		if more, err := again.AppendJSON(nil); err != nil || !bytes.Equal(out, more) {
			t.Fatalf("%s has become %s, %v", out, more, err)
		}
		for _, all := range tuningOf(v, "").byKind {
			if all[len(all)-1].below != math.MaxInt {
				t.Fatalf("no shape for large messages in %s", b)
			}
		}
	})
}

// A file for other ranks, cores or processors is told from one that is not
// there, and from one that is broken.
func TestLoadTuning(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "folder", "t.json")
	if err := sample(4, 2).Store(file); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadTuning(file, 4, 2); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("beside the file there is something else: %v", left)
	}
	foreign := sample(4, 2)
	foreign.Processor = "abacus"
	other := filepath.Join(dir, "foreign.json")
	if err := foreign.Store(other); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file         string
		ranks, cores int
		want         string
	}{
		{file, 2, 2, "it is for 4 ranks, not 2"},
		{file, 4, 8, "it is for 2 cores, not 8"},
		{other, 4, 2, `it was measured on "abacus"`},
		{dir, 4, 2, "no regular file"},
		{filepath.Join(dir, "none"), 4, 2, "no such file"},
	} {
		if _, err := LoadTuning(c.file, c.ranks, c.cores); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	bad := sample(4, 2)
	bad.Ranks = 0
	if err := bad.Store(file); err == nil {
		t.Error("what cannot be read was written")
	}
}

// tuned runs New on a few ranks and returns what each says of its plans.
func tuned(t *testing.T, ranks int, opts ...Option) (said []string, errs []error) {
	t.Helper()
	said = make([]string, ranks)
	errs = newFakeJob(ranks).run(t, func(w *fakeWorld) error {
		if w.Rank() != 0 { // only rank 0's file counts
			w.Settings = map[string]string{"no-topo-cache": "1"}
		}
		c, err := New(t.Context(), w, append([]Option{overMem, WithGraph(topo.UniformGraph(ranks))}, opts...)...)
		if err != nil {
			return err
		}
		var b strings.Builder
		for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.AllGather} {
			for _, bytes := range []int{8, 1023, 1024, 65535, 65536, 1 << 17} {
				name, _ := c.Choice(kind, bytes)
				b.WriteString(name + " ")
			}
			b.WriteString("by " + c.ChosenBy(kind) + "\n")
		}
		said[w.Rank()] = b.String() + c.Explain()
		x := make([]float32, 5000)
		x[7] = 1
		for _, n := range []int{2, 1000, 5000} { // all three ranges
			if err := AllReduce(t.Context(), c, x[:n], x[:n], Sum); err != nil {
				return err
			}
		}
		if want := float32(ranks * ranks); x[7] != want {
			return fmt.Errorf("the sum is %v, want %v", x[7], want)
		}
		return errors.Join(Broadcast(t.Context(), c, x, x, 0), c.Close())
	})
	return said, errs
}

// New goes by the file of rank 0: a kept one, or the one that TREERUN_TUNE
// names. All ranks choose alike, although the others have none.
func TestTuned(t *testing.T) {
	dir := t.TempDir()
	cores := defaults().cores
	kept := tuningPath(dir, 4, cores)
	const follows = "tree tree trees trees tree tree by tuning file "
	check := func(what string, follow string, opts ...Option) {
		t.Helper()
		said, errs := tuned(t, 4, append([]Option{WithTopoCache(dir)}, opts...)...)
		for r := range said {
			switch {
			case errs[r] != nil:
				t.Errorf("%s: rank %d: %v", what, r, errs[r])
			case said[r] != said[0]:
				t.Errorf("%s: rank %d says\n%srank 0\n%s", what, r, said[r], said[0])
			case follow == "" && (strings.Contains(said[r], "by tuning file") || !strings.Contains(said[r], "Tuning file: none")):
				t.Errorf("%s: rank %d goes by a tuning file:\n%s", what, r, said[r])
			case follow != "" && (!strings.HasPrefix(said[r], follows+follow+"\ntree tree tree tree tree tree by tuning file "+follow+"\n") ||
				!strings.Contains(said[r], "by price\ntreerun: 4 ranks") || !strings.Contains(said[r], "\nTuning file: "+follow+"\n")):
				t.Errorf("%s: rank %d does not go by %s where it says something:\n%s", what, r, follow, said[r])
			}
		}
	}
	check("no file", "")
	if err := sample(4, cores).Store(kept); err != nil {
		t.Fatal(err)
	}
	check("a kept file", kept)
	check("a plan by name", "", WithPlan("direct"))
	t.Setenv(TuneVariable, "off")
	check("off", "")
	if err := os.Rename(kept, filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(TuneVariable, filepath.Join(dir, "elsewhere"))
	check("a named file", filepath.Join(dir, "elsewhere"))
	t.Setenv(TuneVariable, "")
	if err := os.WriteFile(kept, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("a broken kept file", "")
}

// A file that TREERUN_TUNE names and that cannot be used is an error on all
// ranks, with file and reason.
func TestTunedByWrongFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "for4.json")
	if err := sample(4, defaults().cores).Store(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv(TuneVariable, file)
	_, errs := tuned(t, 3)
	for r, err := range errs {
		want := fmt.Sprintf("%s=%s: it is for 4 ranks, not 3; make one with treerun bench --tune -np 3", TuneVariable, file)
		if !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("rank %d: %v, want %q", r, err, want)
		}
	}
	if said, errs := tuned(t, 1); errs[0] != nil || strings.Contains(said[0], "tuning file") {
		t.Errorf("a rank by itself needs no file: %v\n%v", errs[0], said)
	}
}

// A communicator of all ranks of another goes by its tuning, one of some of
// them by prices, whatever TREERUN_TUNE names.
func TestTunedSplit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.json")
	if err := sample(4, defaults().cores).Store(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv(TuneVariable, file)
	mustRun(t, 4, func(w *fakeWorld, c *Comm) error {
		same, err := c.Split(t.Context(), 0, -w.Rank())
		if err != nil {
			return err
		}
		half, err := c.Split(t.Context(), w.Rank()%2, 0)
		if err != nil {
			return err
		}
		if a, b := same.ChosenBy(plan.AllReduce), half.ChosenBy(plan.AllReduce); a != "tuning file "+file || b != "price" {
			t.Errorf("of all ranks by %s, of two by %s", a, b)
		}
		return errors.Join(half.Close(), same.Close())
	}, WithGraph(topo.UniformGraph(4)))
}

// WithPlan is compared between ranks, and checked.
func TestWithPlan(t *testing.T) {
	for _, kind := range []plan.Kind{plan.AllReduce, plan.Broadcast, plan.Barrier, plan.AllToAll} {
		for _, name := range PlanNames(kind, 3) {
			mustRun(t, 3, func(_ *fakeWorld, c *Comm) error {
				if got, us := c.Choice(kind, 4096); got != name || !(us > 0) {
					t.Errorf("%s: %s takes %s, %v us", name, kind, got, us)
				}
				return Barrier(t.Context(), c)
			}, WithPlan(name), WithGraph(topo.UniformGraph(3)))
		}
	}
	if got := PlanNames(plan.AllReduce, directRanks+1); !slices.Equal(got, []string{"tree", "trees"}) {
		t.Errorf("many ranks have %v", got)
	}
	for want, opts := range map[string][]Option{
		`WithPlan("ring"): want one of ["flat" "tree"`: {WithPlan("ring"), WithPlan("ring")},
		"plans=tree ": {WithPlan("tree"), WithPlan("flat")},
	} {
		errs := newFakeJob(2).run(t, func(w *fakeWorld) error {
			_, err := New(t.Context(), w, overMem, WithTopoCache(""), opts[w.Rank()])
			return err
		})
		for r, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: %v, want %q", r, err, want)
			}
		}
	}
	_, errs := tuned(t, directRanks+1, WithPlan("direct"))
	if !errors.Is(errs[0], ErrArgument) || !strings.Contains(errs[0].Error(), "up to 16 ranks, not for 17") {
		t.Errorf("too many ranks: %v", errs[0])
	}
}
