//go:build linux

package host

import (
	"testing"

	"github.com/treerun/treerun/cmd/treerun/internal/wire"
	"github.com/treerun/treerun/internal/job"
)

// TestSharers: ranks of hosts that are one machine divide its cores among them; ranks of other hosts are not
// counted.
func TestSharers(t *testing.T) {
	every := func(int) bool { return true }
	j := &wire.Run{File: job.File{Size: 7, Hosts: []int{0, 0, 1, 2, 2, 2, 3}}}
	for index, want := range [][2]int{{0, 2}, {0, 1}, {0, 3}, {0, 1}} {
		if before, all := sharers(j, index, every); before != want[0] || all != want[1] {
			t.Errorf("host %d alone: rank %d of %d, want %d of %d", index, before, all, want[0], want[1])
		}
	}
	j.Machines = []int{0, 1, 0, 1}
	for index, want := range [][2]int{{0, 5}, {0, 2}, {2, 5}, {1, 2}} {
		if before, all := sharers(j, index, every); before != want[0] || all != want[1] {
			t.Errorf("host %d: rank %d of %d, want %d of %d", index, before, all, want[0], want[1])
		}
	}
}
