package setup

import (
	"fmt"
	"slices"
	"testing"
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

// TestLendFrom: with a smaller gain messages are lent from a larger size on.
func TestLendFrom(t *testing.T) {
	for gain, want := range map[float64]int64{0: 8 << 10, 100: 8 << 10, 4: 32 << 10, 2: 64 << 10, 1: 128 << 10,
		0.5: 256 << 10} {
		if got := lendFrom(gain, false); got != want {
			t.Errorf("a gain of %v: from %d bytes, want %d", gain, got, want)
		}
	}
	if got := lendFrom(0, true); got != 256<<10 {
		t.Errorf("on several hosts: from %d bytes, want 256 KiB", got)
	}
}

// TestRanksOnCores: ranks are counted by machine, not all together.
func TestRanksOnCores(t *testing.T) {
	two := []int{0, 0, 1, 1}
	for name, c := range map[string]struct {
		machines, hosts []int
		cores           int
		want            bool
	}{
		"one host":              {nil, []int{0, 0, 0, 0}, 2, true},
		"one host, enough":      {nil, []int{0, 0, 0, 0}, 4, false},
		"two hosts":             {nil, two, 2, false},
		"two hosts, too few":    {nil, two, 1, true},
		"hosts of one machine":  {[]int{0, 0, 0, 0}, two, 2, true},
		"hosts of two machines": {[]int{3, 3, 5, 5}, []int{0, 1, 2, 3}, 2, false},
	} {
		if got := slices.Max(RanksOnCores(c.machines, c.hosts)) > c.cores; got != c.want {
			t.Errorf("%s: more ranks than cores: %v, want %v", name, got, c.want)
		}
	}
}
