package comm

import (
	"encoding/binary"
	"slices"
	"testing"
)

// FuzzMembers: the members of a Split are ranks of its color, with rising keys.
func FuzzMembers(f *testing.F) {
	f.Add(1, []byte("\x01\x00\x00\x00\x00\x00\x00\x0012345678\x01\x00\x00\x00\x00\x00\x00\x0002345678"))
	f.Fuzz(func(t *testing.T, color int, data []byte) {
		number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) }
		var keys []int64
		for _, r := range membersOf(color, data) {
			if number(2*r) != int64(color) {
				t.Errorf("rank %d has color %d, not %d", r, number(2*r), color)
			}
			keys = append(keys, number(2*r+1))
		}
		if !slices.IsSorted(keys) {
			t.Errorf("the keys %d", keys)
		}
	})
}
