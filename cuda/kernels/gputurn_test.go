//go:build cgo && linux

package kernels_test

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/kernels"
	"github.com/treerun/treerun/internal/testutil/fakegpu"
)

// Of four processes that load the same kernels one compiles first, and then the others at the same time.
func TestLoadInTurn(t *testing.T) {
	const variable, compile = "TREERUN_TEST_LOADS", 600 * time.Millisecond
	fakegpu.Need(t)
	if os.Getenv(variable) != "" {
		devices, err := cuda.Devices()
		must(t, err)
		s, err := kernels.Load(devices[0], kernels.Copies)
		must(t, err)
		_, _ = os.Stdout.WriteString("loaded " + strconv.FormatInt(time.Now().UnixNano(), 10) + "\n")
		must(t, s.Close())
		return
	}
	var all sync.WaitGroup
	loaded := make([]time.Duration, 4)
	for i := range loaded {
		all.Go(func() {
			c := exec.Command("/proc/self/exe", "-test.run=^TestLoadInTurn$")
			c.Env = append(os.Environ(), variable+"=1",
				"TREERUN_FAKE_GPU_COMPILE_MS="+strconv.FormatInt(compile.Milliseconds(), 10))
			out, err := c.CombinedOutput()
			_, line, _ := strings.Cut(string(out), "loaded ")
			at, _, _ := strings.Cut(line, "\n")
			n, _ := strconv.ParseInt(at, 10, 64)
			if loaded[i] = time.Duration(n); err != nil || n == 0 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.Wait()
	slices.Sort(loaded)
	for i := range loaded {
		loaded[i] -= loaded[3]
	}
	if loaded[1]-loaded[0] < compile/2 || loaded[1] < -compile {
		t.Errorf("a load takes %v, and they ended at %v before the last", compile, loaded)
	}
}
