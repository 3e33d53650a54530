//go:build cgo

package peers

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/docs/fakegpu"
	"github.com/treerun/treerun/rank/ranktest"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/topo/machines"
	"github.com/treerun/treerun/topo/probe"
)

// The tests run on a fake DGX-1 with V100.
func TestMain(m *testing.M) { fakegpu.Main(m, "dgx1v") }

// measureOn lets a rank for each of these devices measure, and returns what rank 0
// got. All must get the same.
func measureOn(t *testing.T, o Options, devices ...int) (*Result, error) {
	t.Helper()
	fakegpu.Need(t)
	list, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	results := make([]*Result, len(devices))
	errs := ranktest.New(ranktest.OneHost(len(devices))...).Run(t, func(w *ranktest.World) (err error) {
		results[w.Rank()], err = Measure(t.Context(), w, list[devices[w.Rank()]], o)
		return err
	})
	for rank := range devices {
		if (errs[rank] == nil) != (errs[0] == nil) {
			t.Fatalf("rank 0: %v, rank %d: %v", errs[0], rank, errs[rank])
		}
		if errs[0] == nil && text(t, results[rank].Graph) != text(t, results[0].Graph) {
			t.Fatalf("ranks 0 and %d have different graphs", rank)
		}
	}
	return results[0], errs[0]
}

func text(t *testing.T, g *topo.Graph) string {
	t.Helper()
	b, err := g.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func folder(t *testing.T) *probe.Cache { return &probe.Cache{Dir: t.TempDir()} }

// TestMeasure: all NVLinks of the machine are found by NVML, measured, and kept; the
// second time nothing is measured; nothing stays open.
func TestMeasure(t *testing.T) {
	fakegpu.Need(t)
	cache := folder(t)
	before := cuda.Stats()
	r, err := measureOn(t, Options{Cache: cache}, 0, 1, 2, 3, 4, 5, 6, 7)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := machines.Get("dgx1v")
	if len(r.Graph.Links) != len(want.Links) || len(r.Found) != 28 || len(r.Dropped) != 0 || r.Kept {
		t.Fatalf("%d links, %d findings, dropped %+v, kept %v", len(r.Graph.Links), len(r.Found), r.Dropped, r.Kept)
	}
	for i, l := range r.Graph.Links {
		w := want.Links[i]
		if l.A != w.A || l.B != w.B || l.Kind != gpu.KindNVLink || l.Source != topo.Measured || l.Declared != w.GBytesPerSecond || l.GBytesPerSecond <= 0 {
			t.Errorf("link %+v, want one of %v GB/s, measured", l, w.GBytesPerSecond)
		}
	}
	for _, f := range r.Found {
		if l := r.Graph.Rates().At(f.A, f.B); (l > 0) == (f.Fault != "") {
			t.Errorf("%+v with a link of %v GB/s", f, l)
		}
	}
	after := cuda.Stats()
	after.Contexts = before.Contexts // they stay
	if after != before {
		t.Errorf("open: %+v, before %+v", after, before)
	}
	again, err := measureOn(t, Options{Cache: cache}, 0, 1, 2, 3, 4, 5, 6, 7)
	if err != nil || !again.Kept || text(t, again.Graph) != text(t, r.Graph) {
		t.Errorf("the second time: %+v, %v", again, err)
	}
	for _, o := range []Options{{Cache: cache, Anew: true}, {Cache: cache, Forget: true}} {
		if anew, err := measureOn(t, o, 0, 1, 2, 3, 4, 5, 6, 7); err != nil || anew.Kept {
			t.Errorf("anew: %+v, %v", anew, err)
		}
	}
	if others, err := measureOn(t, Options{Cache: cache}, 1, 0, 2, 3, 4, 5, 6, 7); err != nil || others.Kept {
		t.Errorf("other ranks on the GPUs: %+v, %v", others, err)
	}
}

// Ranks that share GPUs have the links of those, and one within each.
func TestMeasureShared(t *testing.T) {
	r, err := measureOn(t, Options{Forget: true}, 0, 0, 3, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Graph.Links) != 10 || len(r.Found) != 10 {
		t.Fatalf("%d links, %d findings", len(r.Graph.Links), len(r.Found))
	}
	for _, l := range r.Graph.Links {
		want := gpu.KindNVLink
		if r.Devices[l.A] == r.Devices[l.B] {
			want = gpu.KindSame
		}
		if l.Kind != want || l.Source != topo.Measured {
			t.Errorf("%+v, want %s", l, want)
		}
	}
}

// Ranks that share a GPU see the same free memory and take it together: whoever
// comes too late measures with little.
func TestMemoryTakenMeanwhile(t *testing.T) {
	if !inChild(t, "TREERUN_FAKE_GPU_FAIL=cuMemAlloc:3") {
		return
	}
	before := cuda.Stats()
	r, err := measureOn(t, Options{Forget: true}, 0, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Graph.Links) != 3 {
		t.Errorf("%d links", len(r.Graph.Links))
	}
	after := cuda.Stats()
	after.Contexts = before.Contexts
	if after != before {
		t.Errorf("open: %+v, before %+v", after, before)
	}
}

func TestMeasureAlone(t *testing.T) {
	r, err := measureOn(t, Options{Cache: folder(t)}, 5)
	if err != nil || len(r.Graph.Links) != 0 || r.Graph.Ranks != 1 || len(r.Machine.GPUs) != 8 {
		t.Errorf("%+v, %v", r, err)
	}
}

// inChild runs a test in a process of its own, with further variables. It returns
// true there.
func inChild(t *testing.T, vars ...string) bool {
	t.Helper()
	fakegpu.Need(t)
	const mark = "PEERS_TEST_CHILD"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = within(os.Environ(), mark+"="+t.Name(), vars)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// within returns an environment with further variables, on the same fake host but
// not its owner.
func within(env []string, mark string, vars []string) []string {
	env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "TREERUN_FAKE_GPU_OWN=") })
	return append(append(env, mark), vars...)
}

// A link that gives wrong bits is advertised, found out and left out, with one line.
func TestBrokenLink(t *testing.T) {
	if !inChild(t, "TREERUN_FAKE_GPU_BROKEN=0-3") {
		return
	}
	cache := folder(t)
	for range 2 { // measured, and then kept
		r, err := measureOn(t, Options{Cache: cache}, 0, 1, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		if r.Graph.Rates().At(0, 3) != 0 || r.Graph.Rates().At(0, 1) == 0 {
			t.Errorf("%v", r.Graph)
		}
		if len(r.Dropped) != 1 || r.Dropped[0].A != 0 || r.Dropped[0].B != 3 || !strings.Contains(r.Dropped[0].Fault, "ACS or an IOMMU") {
			t.Errorf("dropped %+v", r.Dropped)
		}
	}
	r, err := measureOn(t, Options{Cache: cache}, 0, 3) // nothing else joins these two
	if err != nil || len(r.Graph.Links) != 1 || r.Graph.Links[0].Kind != gpu.KindHost {
		t.Errorf("%+v, %v", r, err)
	}
}

// A link on which copies hang costs some seconds, and the other links are measured
// all the same.
func TestHungLink(t *testing.T) {
	if !inChild(t, "TREERUN_FAKE_GPU_BROKEN=0-3:hang") {
		return
	}
	patience = 10 // in this process
	r, err := measureOn(t, Options{Forget: true}, 0, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Dropped) != 1 || r.Dropped[0].A != 0 || r.Dropped[0].B != 3 || !strings.Contains(r.Dropped[0].Fault, "does not end within 5s") {
		t.Errorf("dropped %+v", r.Dropped)
	}
	for _, l := range r.Graph.Links {
		if l.Source != topo.Measured {
			t.Errorf("%+v was not measured", l)
		}
	}
	if len(r.Graph.Links) != 5 {
		t.Errorf("%v", r.Graph)
	}
}

// noMemoryFrom lets the n-th allocation fail and those that follow.
func noMemoryFrom(n int) string {
	var calls []string
	for end := n + 10; n < end; n++ {
		calls = append(calls, fmt.Sprintf("cuMemAlloc:%d", n))
	}
	return "TREERUN_FAKE_GPU_FAIL=" + strings.Join(calls, ",")
}

// A rank that fails for itself ends the measuring on all, and is named.
func TestNoMemory(t *testing.T) {
	if !inChild(t, noMemoryFrom(4)) {
		return
	}
	before := cuda.Stats()
	_, err := measureOn(t, Options{Forget: true}, 0, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "measure peer links: rank ") || !strings.Contains(err.Error(), "OUT_OF_MEMORY") {
		t.Fatalf("error %v", err)
	}
	after := cuda.Stats()
	after.Contexts = before.Contexts
	if after != before {
		t.Errorf("open: %+v, before %+v", after, before)
	}
}

// A GPU that is lost is an error, not a bad link.
func TestLostGPU(t *testing.T) {
	if !inChild(t, "TREERUN_FAKE_GPU_LOST=1@40") {
		return
	}
	_, err := measureOn(t, Options{Forget: true}, 0, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "rank ") {
		t.Fatalf("error %v", err)
	}
}
