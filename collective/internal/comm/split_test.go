package comm

import (
	"slices"
	"testing"
)

// FuzzMembers: the members of a Split are the ranks of its color, with rising keys.
func FuzzMembers(f *testing.F) {
	f.Add(1, []byte("\x01k\x02a\x01b\x01\xff"))
	f.Fuzz(func(t *testing.T, color int, data []byte) {
		var all []choice
		for c := range slices.Chunk(data[:len(data)/2*2], 2) {
			all = append(all, choice{color: int64(int8(c[0])), key: int64(int8(c[1]))})
		}
		var keys []int64
		of := 0
		for _, r := range membersOf(color, all) {
			if all[r].color != int64(color) {
				t.Errorf("rank %d has color %d, not %d", r, all[r].color, color)
			}
			keys = append(keys, all[r].key)
		}
		for _, c := range all {
			if c.color == int64(color) {
				of++
			}
		}
		if !slices.IsSorted(keys) || len(keys) != of {
			t.Errorf("the keys %d of %d ranks", keys, of)
		}
	})
}
