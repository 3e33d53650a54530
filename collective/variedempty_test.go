package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/testutil"
)

// TestVariedOfNothing: if a rank sends or receives nothing by its own counts, while the others wait for it by theirs,
// all ranks get an ErrMismatch: from the call, from the next one, or from Close. The sums of the counts are the same.
// GatherV and ScatterV use the root's counts.
func TestVariedOfNothing(t *testing.T) {
	calls := map[string]func(c *Comm, counts []int) error{
		"GatherV": func(c *Comm, counts []int) error {
			return GatherV(t.Context(), c, make([]int, counts[c.Rank()]), make([]int, 6), counts, 0)
		},
		"ScatterV": func(c *Comm, counts []int) error {
			return ScatterV(t.Context(), c, make([]int, 6), make([]int, counts[c.Rank()]), counts, 0)
		},
		"AllGatherV": func(c *Comm, counts []int) error {
			return AllGatherV(t.Context(), c, make([]int, counts[c.Rank()]), make([]int, 6), counts)
		},
		"ReduceScatterV": func(c *Comm, counts []int) error {
			return ReduceScatterV(t.Context(), c, make([]int, 6), make([]int, counts[c.Rank()]), counts, Sum)
		},
	}
	for _, hosts := range [][]int{{0, 0, 0}, {0, 1, 1}, {0, 1, 2}} {
		for name, call := range calls {
			for _, odd := range []int{0, 1, 2} {
				for _, next := range []string{"Barrier", "AllReduce", "Close"} {
					t.Run(fmt.Sprintf("%s/%v/rank %d/%s", name, hosts, odd, next), func(t *testing.T) {
						t.Parallel()
						for r, err := range runHosts(t, hosts, nil, func(_ *testutil.Hosted, c *Comm) error {
							counts := []int{0, 6, 0}
							if c.Rank() == odd {
								counts = []int{6, 0, 0}
							}
							err := call(c, counts)
							switch {
							case err != nil:
							case next == "Barrier":
								err = Barrier(t.Context(), c)
							case next == "AllReduce":
								x := make([]int, 1000)
								err = AllReduce(t.Context(), c, x, x, Sum)
							}
							return err
						}, WithGraph(testutil.GraphOn(hosts))) {
							if odd == 2 && (name == "GatherV" || name == "ScatterV") { // its own part is as the root has it
								if err != nil {
									t.Errorf("rank %d: %v", r, err)
								}
								continue
							}
							if rooted := name == "GatherV" || name == "ScatterV"; rooted && next == "Close" && err == nil &&
								r != map[string]int{"ScatterV": 1}[name] {
								continue // it has closed before the rank that receives
							}
							if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), name+" #1 (") &&
								!strings.Contains(err.Error(), "have made different calls before it") {
								t.Errorf("rank %d: %v, want ErrMismatch of %s", r, err, name)
							}
						}
					})
				}
			}
		}
	}
}
