package setup

import (
	"slices"
	"testing"
)

// TestJoinsHosts: the first ranks of hosts form a ring and a binary tree, to which other ranks do not belong.
func TestJoinsHosts(t *testing.T) {
	for n := 2; n <= 20; n++ {
		want := make([][]int, n) // by host
		join := func(a, b int) { want[a], want[b] = append(want[a], b), append(want[b], a) }
		for h := range n {
			join(h, (h+1)%n)
			for _, child := range []int{2*h + 1, 2*h + 2} {
				if child < n {
					join(h, child)
				}
			}
		}
		var hosts []int
		for h := range n {
			hosts = append(hosts, h, h)
		}
		for rank, h := range hosts {
			joins, got := joinsHosts(hosts, rank), []int(nil)
			for r := range hosts {
				if r != rank && joins(r) {
					got = append(got, hosts[r])
				}
			}
			var expected []int
			if rank%2 == 0 {
				expected = slices.Compact(slices.Sorted(slices.Values(want[h])))
			}
			if !slices.Equal(got, expected) {
				t.Errorf("%d hosts: rank %d joins those of hosts %v, want %v", n, rank, got, expected)
			}
		}
	}
}
