package collective

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/topo"
)

// TestCrowded: only ranks that are more than the cores among which they are bound measure
// from other cores than their own.
func TestCrowded(t *testing.T) {
	for _, tc := range []struct {
		setting string
		ranks   int
		want    string
	}{
		{"0,1", 4, "[0 1]"},
		{"0,1", 3, "[0 1]"},
		{"2,3,66", 8, "[2 3 66]"},
		{"7", 2, "[7]"},
		{"0,1", 2, "[]"},
		{"0,1,2,3", 2, "[]"},
		{"0", 1, "[]"},
		{"", 4, "[]"},
		{"0,,1", 4, "[]"},
		{"0,-1", 4, "[]"},
		{"0,1024", 4, "[]"},
		{"0-1", 4, "[]"},
	} {
		if got := fmt.Sprint(crowded(tc.setting, tc.ranks)); got != tc.want {
			t.Errorf("%d ranks on cores %q: %s, want %s", tc.ranks, tc.setting, got, tc.want)
		}
	}
}

// TestLendingLoses: ranks read each other's memory unless it was measured that this is slower,
// on any host.
func TestLendingLoses(t *testing.T) {
	for _, tc := range []struct {
		gains [3]float64 // of the links
		want  bool
	}{
		{[3]float64{}, false},
		{[3]float64{1.5, 1.5, 1.5}, false},
		{[3]float64{0.9, 0.9, 0.9}, false},
		{[3]float64{0.4, 0.4, 0.4}, true},
		{[3]float64{0, 1.5, 0.4}, true},
		{[3]float64{0, 1.5, 0}, false},
	} {
		g := topo.UniformGraph(3)
		for i, gain := range tc.gains {
			g.Links[i].LendGain = gain
		}
		if got := lendingLoses(g.LendGain()); got != tc.want {
			t.Errorf("gains %v: %v, want %v", tc.gains, got, tc.want)
		}
	}
}
