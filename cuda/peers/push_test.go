//go:build cgo && linux

package peers

import (
	"math"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo/gpu"
)

// TestPush: over PCIe writing is measured in addition to reading, and taken where it is a tenth quicker; the choice is
// kept.
func TestPush(t *testing.T) {
	for slow, want := range map[string]string{"80:2": gpu.KindPush, "80:0.5": gpu.KindPCIe} {
		t.Run(slow, func(t *testing.T) {
			if !asProcesses(t, 2, "TREERUN_FAKE_GPU_NO_NVLINK=1", "TREERUN_FAKE_GPU_SLOW="+slow) {
				return
			}
			cache := folder()
			r, err := measureOn(t, Options{Cache: cache}, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			f, l := r.Found[0], r.Graph.Links[0]
			rate := f.GBytesPerSecond
			if want == gpu.KindPush {
				rate = f.Push
			}
			if l.Kind != want || math.Abs(l.GBytesPerSecond-rate) > rate/100 || f.Push <= 0 {
				t.Errorf("link %+v of %+v, want %s", l, f, want)
			}
			if lines := r.PCIeLines(); len(lines) != 1 || !strings.Contains(lines[0], "("+want+"): pull ") {
				t.Errorf("lines: %q", lines)
			}
			again, err := measureOn(t, Options{Cache: cache}, 0, 1)
			if err != nil || !again.Kept || again.Graph.Links[0].Kind != want || len(again.PCIeLines()) != 0 {
				t.Errorf("kept %v, %+v, lines %q, %v", again.Kept, again.Graph.Links, again.PCIeLines(), err)
			}
		})
	}
}
