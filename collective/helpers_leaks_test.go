package collective

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

// leavesNothing waits until this process holds no more than before.
func leavesNothing(t *testing.T, before [4]int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		after, more := held(t), false
		for i := range after {
			more = more || after[i] > before[i]
		}
		if !more {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%v goroutines, descriptors, mappings and files are left, %v were before", after, before)
			return
		}
	}
}

// held is heldNow without mappings that are unreachable, which end.
func held(t *testing.T) [4]int {
	runtime.GC()
	return heldNow(t)
}

// heldNow counts goroutines, descriptors, mappings of shared memory and files of this process.
func heldNow(t *testing.T) [4]int {
	fds, err := os.ReadDir("/proc/self/fd")
	testutil.Need(t, testutil.Proc, err)
	maps, err := os.ReadFile("/proc/self/maps")
	testutil.Need(t, testutil.Proc, err)
	files, _ := os.ReadDir("/dev/shm")
	return [4]int{runtime.NumGoroutine(), len(fds), strings.Count(string(maps), "memfd:treerun-"), len(files)}
}
