package launch

import (
	"fmt"
	"testing"
)

// TestShareOf: all cores are given out, evenly, and ranks share only when there
// are too few.
func TestShareOf(t *testing.T) {
	for _, tc := range []struct {
		cores []int
		size  int
		want  string
	}{
		{[]int{0, 1}, 1, "[[0 1]]"},
		{[]int{0, 1}, 2, "[[0] [1]]"},
		{[]int{2, 3, 6, 7}, 2, "[[2 3] [6 7]]"},
		{[]int{0, 1, 2, 3, 4}, 2, "[[0 1] [2 3 4]]"},
		{[]int{0, 1}, 5, "[[0] [1] [0] [1] [0]]"},
	} {
		var got [][]int
		for r := range tc.size {
			got = append(got, shareOf(tc.cores, r, tc.size))
		}
		if fmt.Sprint(got) != tc.want {
			t.Errorf("cores %v for %d ranks: %v, want %s", tc.cores, tc.size, got, tc.want)
		}
	}
}
