package job

import (
	"slices"
	"testing"
)

// Ranks share cores with the ranks of their host, and of hosts that are the same machine.
func TestBoxes(t *testing.T) {
	for _, c := range []struct {
		hosts    []int
		machines []string
		want     []int
	}{
		{[]int{0, 1, 2, 3}, []string{"x", "x", "x", "x"}, []int{0, 0, 0, 0}},
		{[]int{0, 1, 2, 3}, []string{"x", "y", "x", ""}, []int{0, 1, 0, 3}},
		{[]int{4, 4, 2, 2}, []string{"", "", "", ""}, []int{4, 4, 2, 2}},
		{[]int{4, 2, 4, 2}, []string{"y", "x", "y", "x"}, []int{4, 2, 4, 2}},
	} {
		if got := SharedMachines(c.hosts, c.machines); !slices.Equal(got, c.want) {
			t.Errorf("hosts %v of machines %q share cores as %v, want %v", c.hosts, c.machines, got, c.want)
		}
	}
}
