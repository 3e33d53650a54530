package sparse

import (
	"fmt"
	"slices"
	"testing"

	"github.com/treerun/treerun/collective"
)

// The errors for different calls do not depend on the order in which ranks call: the call of most ranks, or that of the
// lowest rank in a tie, is compared with that of the fewest, and each rank's error begins with its own call.
func TestMismatchIsToldAlike(t *testing.T) {
	name := func(n int) string { return fmt.Sprintf("sparse AllReduce (sum of %d float32 in blocks of 256)", n) }
	for _, c := range []struct {
		lengths   []int // by rank
		odd, from int   // the ranks in the error
		blame     int
	}{
		{[]int{100, 100, 100, 101}, 3, 0, 3},
		{[]int{101, 100, 100, 100}, 0, 1, 0},
		{[]int{100, 100, 102, 101}, 2, 0, 2},
		{[]int{103, 101, 102, 100}, 1, 0, -1},
		{[]int{101, 100, 100, 101}, 1, 0, -1},
		{[]int{100, 101}, 1, 0, -1},
	} {
		for range 5 {
			errs := runRanks(t, oneHost(len(c.lengths)), func(_ *world, comm *collective.Comm) error {
				x := make([]float32, c.lengths[comm.Rank()])
				_, err := AllReduce(t.Context(), comm, x, x, collective.Sum)
				return err
			})
			for r, err := range errs {
				want := fmt.Sprintf("collective: %s #1: ", name(c.lengths[r]))
				words := fmt.Sprintf("rank %d called %s while rank %d called %s", c.odd, name(c.lengths[c.odd]), c.from,
					name(c.lengths[c.from]))
				if re, is := err.(*collective.RankError); !is || err.Error() != want+words || re.Rank != c.blame {
					t.Fatalf("lengths %v, rank %d: %v\nwant %s%s, of rank %d", c.lengths, r, err, want, words, c.blame)
				}
			}
		}
	}
}

// The same with rows, whose calls exchange more than one message.
func TestMismatchOfPairsIsToldAlike(t *testing.T) {
	var first []string
	for range 5 {
		var texts []string
		for _, err := range runRanks(t, oneHost(3), func(_ *world, c *collective.Comm) error {
			_, _, err := AllReducePairs(t.Context(), c, Pairs[int32]{Width: 2 + c.Rank()})
			return err
		}) {
			texts = append(texts, fmt.Sprint(err))
		}
		if first == nil {
			first = texts
		}
		if !slices.Equal(texts, first) {
			t.Fatalf("errors %q, before %q", texts, first)
		}
	}
}
