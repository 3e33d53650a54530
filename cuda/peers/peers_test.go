//go:build cgo && linux

package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
	"github.com/treerun/treerun/rank"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/topo/probe"
)

// member is this process as a rank of a job: see asProcesses.
var member *rank.World

// asProcesses runs the test that calls it once more as n ranks, processes of a job of
// treerun on a fake DGX-1 with V100. It reports whether this process is one of them.
func asProcesses(t *testing.T, n int, env ...string) bool {
	t.Helper()
	if !(fakegpu.Job{Hosts: []string{"dgx1v"}, Ranks: n, Env: env}).Run(t) {
		return false
	}
	w, err := rank.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member = w
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return true
}

// measureOn measures as this rank, on one of the devices, one for each rank. All must
// get the same.
func measureOn(t *testing.T, o Options, devices ...int) (*HostResult, error) {
	t.Helper()
	r, err := Measure(t.Context(), member, deviceAt(t, devices[member.Rank()]), o)
	if err != nil {
		allAgree(t, "failed")
		return nil, err
	}
	allAgree(t, text(t, r[0].Graph))
	return &r[0], nil
}

func deviceAt(t *testing.T, i int) *cuda.Device {
	t.Helper()
	list, err := cuda.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return list[i]
}

// allAgree fails the test where the ranks do not pass the same text.
func allAgree(t *testing.T, text string) {
	t.Helper()
	all, err := member.AllGather(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for r, other := range all {
		if string(other) != text {
			t.Fatalf("rank %d has %s\nrank %d has %s", member.Rank(), text, r, other)
		}
	}
}

func text(t *testing.T, g *topo.Graph) string {
	t.Helper()
	b, err := g.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// folder is a cache of all ranks of the job.
func folder() *probe.Cache {
	return &probe.Cache{Dir: filepath.Join(os.Getenv("XDG_CACHE_HOME"), "links")}
}

// TestMeasure: all NVLinks of the machine are found by NVML, measured, and kept; the
// second time nothing is measured; nothing stays open.
func TestMeasure(t *testing.T) {
	if !asProcesses(t, 8) {
		return
	}
	cache := folder()
	before := cuda.Stats()
	r, err := measureOn(t, Options{Cache: cache}, 0, 1, 2, 3, 4, 5, 6, 7)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := topo.Machine("dgx1v")
	if len(r.Graph.Links) != len(want.Links) || len(r.Found) != 28 || len(r.Dropped) != 0 || r.Kept {
		t.Fatalf("%d links, %d findings, dropped %+v, kept %v", len(r.Graph.Links), len(r.Found), r.Dropped, r.Kept)
	}
	for i, l := range r.Graph.Links {
		w := want.Links[i]
		if l.A != w.A || l.B != w.B || l.Kind != gpu.KindNVLink || l.Source != topo.Measured ||
			l.Declared != w.GBytesPerSecond || l.GBytesPerSecond <= 0 {
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
	for _, o := range []Options{{Cache: cache, Anew: true}, {}} {
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
	if !asProcesses(t, 5) {
		return
	}
	r, err := measureOn(t, Options{}, 0, 0, 3, 0, 3)
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

// Ranks that share a GPU see the same free memory and take it together: a rank that comes too late measures with small
// buffers.
func TestMemoryTakenMeanwhile(t *testing.T) {
	if !asProcesses(t, 3, "TREERUN_FAKE_GPU_MEMORY=268435456", "TREERUN_FAKE_GPU_FAIL=cuMemAlloc:1") {
		return
	}
	before := cuda.Stats()
	r, err := measureOn(t, Options{}, 0, 0, 0)
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
	if !asProcesses(t, 1) {
		return
	}
	r, err := measureOn(t, Options{Cache: folder()}, 5)
	if err != nil || len(r.Graph.Links) != 0 || r.Graph.Ranks != 1 || len(r.Machine.GPUs) != 8 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A link that gives wrong bits is advertised, found out and left out, with one line.
func TestBrokenLink(t *testing.T) {
	const broken = "TREERUN_FAKE_GPU_BROKEN=0-3"
	t.Run("of four", func(t *testing.T) {
		if !asProcesses(t, 4, broken) {
			return
		}
		for range 2 { // measured, and then kept
			r, err := measureOn(t, Options{Cache: folder()}, 0, 1, 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			if r.Graph.Rates().At(0, 3) != 0 || r.Graph.Rates().At(0, 1) == 0 {
				t.Errorf("%v", r.Graph)
			}
			if len(r.Dropped) != 1 || r.Dropped[0].A != 0 || r.Dropped[0].B != 3 ||
				!strings.Contains(r.Dropped[0].Fault, "ACS or an IOMMU") {
				t.Errorf("dropped %+v", r.Dropped)
			}
		}
	})
	t.Run("the only one", func(t *testing.T) {
		if !asProcesses(t, 2, broken) {
			return
		}
		r, err := measureOn(t, Options{}, 0, 3)
		if err != nil || len(r.Graph.Links) != 1 || r.Graph.Links[0].Kind != gpu.KindHost {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A link on which copies hang costs some seconds, and the other links are measured nevertheless.
func TestHungLink(t *testing.T) {
	if !asProcesses(t, 4, "TREERUN_FAKE_GPU_BROKEN=0-3:hang") {
		return
	}
	patience = 10 // in this process
	r, err := measureOn(t, Options{}, 0, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Dropped) != 1 || r.Dropped[0].A != 0 || r.Dropped[0].B != 3 ||
		!strings.Contains(r.Dropped[0].Fault, "does not end within 5s") {
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

// noMemory lets the allocations of GPU 1 fail.
func noMemory() string {
	var calls []string
	for n := range 10 {
		calls = append(calls, fmt.Sprintf("cuMemAlloc:%d@1", n+1))
	}
	return "TREERUN_FAKE_GPU_FAIL=" + strings.Join(calls, ",")
}

// A rank that fails alone ends the measuring on all, and is named.
func TestNoMemory(t *testing.T) {
	if !asProcesses(t, 3, noMemory()) {
		return
	}
	before := cuda.Stats()
	_, err := measureOn(t, Options{}, 0, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "measure peer links: rank 1: ") ||
		!strings.Contains(err.Error(), "OUT_OF_MEMORY") {
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
	if !asProcesses(t, 3, "TREERUN_FAKE_GPU_LOST=1@40") {
		return
	}
	_, err := measureOn(t, Options{}, 0, 1, 2)
	if err == nil || !strings.Contains(err.Error(), "rank ") {
		t.Fatalf("error %v", err)
	}
}
