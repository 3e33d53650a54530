package sparse

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/treerun/treerun/collective"
)

// held returns the file descriptors and goroutines of this process.
func held() (files, goroutines int, err error) {
	all, err := os.ReadDir("/proc/self/fd")
	return len(all), runtime.NumGoroutine(), err
}

// Links are opened again for blocks that are larger than the slots of the existing links, which are then closed, by the
// aggregators, too: calls whose blocks grow repeatedly hold no more descriptors and goroutines than the first one.
func TestGrowingBlocksKeepNothing(t *testing.T) {
	const slack = 3 // for others that begin or end meanwhile; a rank's links alone have as many descriptors
	check := func(t *testing.T, c *collective.Comm, form Form) error {
		var files, goroutines int
		for k, size := range []int{64, 9000, 11000, 13000} {
			if err := typed(t, 0, c, patterns[8], form, collective.Sum, 30000, size, true); err != nil {
				return err
			}
			if err := collective.Barrier(t.Context(), c); err != nil {
				return err
			}
			for since := time.Now(); c.Rank() == 0; time.Sleep(5 * time.Millisecond) {
				f, g, err := held()
				if err != nil {
					return err
				}
				if k == 0 {
					files, goroutines = f, g
				}
				if f <= files+slack && g <= goroutines+slack {
					break // at once, but for aggregators, which notice when they do
				}
				if time.Since(since) > time.Minute {
					return fmt.Errorf("blocks of %d elements: %d descriptors and %d goroutines, after the first call %d and %d", size,
						f, g, files, goroutines)
				}
			}
			if err := collective.Barrier(t.Context(), c); err != nil {
				return err
			}
		}
		return nil
	}
	for _, hosts := range [][]int{oneHost(4), {0, 0, 1, 1}} {
		for _, form := range []Form{Trees, Aggregators} {
			t.Run(fmt.Sprint(hosts, form), func(t *testing.T) {
				mustRun(t, hosts, func(_ *world, c *collective.Comm) error { return check(t, c, form) })
			})
		}
	}
}
