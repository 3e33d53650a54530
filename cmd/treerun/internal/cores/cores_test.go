package cores

import (
	"fmt"
	"testing"
)

// TestShareOf: all cores are given out, evenly, and ranks share only when there are too few.
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

// TestPlan: ranks are bound where every core has several and the same number of them, or where there are NUMA
// nodes. Ranks with a GPU stay on the cores of its NUMA node, on all of them unless the user wants shares.
func TestPlan(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7}
	low, high := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
	for _, tc := range []struct {
		name         string
		bind         Bind
		near         [][]int
		first, among int
		usable       int
		nodes        int
		want         string
	}{
		{"no GPU", Auto, [][]int{nil, nil}, 0, 2, 8, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"no GPU, one node", Auto, [][]int{nil, nil}, 0, 2, 8, 1, "[[] []]"},
		{"no GPU, one node, cores", Core, [][]int{nil, nil}, 0, 2, 8, 1, "[[0 1 2 3] [4 5 6 7]]"},
		{"no GPU, one node, twice as many", Auto, [][]int{nil, nil}, 8, 16, 8, 1, "[[0] [1]]"},
		{"no GPU, neighbors", Auto, [][]int{nil, nil}, 2, 4, 8, 2, "[[4 5] [6 7]]"},
		{"no GPU, a quota", Auto, [][]int{nil, nil}, 0, 2, 4, 2, "[[] []]"},
		{"no GPU, twice as many", Auto, [][]int{nil, nil}, 8, 16, 8, 2, "[[0] [1]]"},
		{"no GPU, uneven", Auto, [][]int{nil, nil}, 0, 9, 8, 2, "[[] []]"},
		{"no GPU, uneven, cores", Core, [][]int{nil, nil}, 0, 9, 8, 2, "[[0] [1]]"},
		{"nodes", Auto, [][]int{low, low, high}, 0, 3, 8, 2, "[[0 1 2 3] [0 1 2 3] [4 5 6 7]]"},
		{"nodes, a quota", Auto, [][]int{low, high}, 0, 2, 4, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"one node", Auto, [][]int{all, all}, 0, 2, 8, 2, "[[0 1 2 3] [4 5 6 7]]"},
		{"nodes, cores", Core, [][]int{low, high, low}, 0, 3, 8, 2, "[[0 1] [4 5 6 7] [2 3]]"},
		{"nodes, nothing", None, [][]int{low, high}, 0, 2, 8, 2, "[[] []]"},
		{"many on one node", Auto, [][]int{low, low, low, low, low}, 0, 5, 8, 2,
			"[[0 1 2 3] [0 1 2 3] [0 1 2 3] [0 1 2 3] [0 1 2 3]]"},
	} {
		if got := fmt.Sprint(Plan(tc.bind, all, tc.near, tc.first, tc.among, tc.usable, tc.nodes)); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := fmt.Sprint(Plan(Core, nil, [][]int{nil}, 0, 1, 8, 1)); got != "[[]]" {
		t.Errorf("without cores: %s", got)
	}
	if got := fmt.Sprint(Common(all, []int{-3, 2, 7, 9})); got != "[2 7]" {
		t.Errorf("Common: %s", got)
	}
}
