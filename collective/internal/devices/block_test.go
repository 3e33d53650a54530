package devices

import "testing"

func testBlock(flags, ranks int) *block {
	b := &block{Flags: flags, SlotBytes: make([]int64, ranks)}
	b.Mem = make([]byte, b.bytes()) // as large as that it is aligned
	return b
}

// The parts of a block do not overlap, and flags have the requested size.
func TestDeviceBlock(t *testing.T) {
	for _, ranks := range []int{1, 2, 8} {
		b := testBlock(8192, ranks)
		for i := range ranks {
			ring := b.calls(i)
			for k := range ring {
				ring[k].Store(^uint64(0))
			}
			if b.stage(i).Load() != 0 {
				t.Fatalf("rank %d of %d: its stage lies in a ring", i, ranks)
			}
			b.stage(i).Store(stageLeft)
		}
		for _, v := range b.Mem[:b.Flags] {
			if v != 0 {
				t.Fatal("a ring lies in the flags")
			}
		}
		if at := b.slotsAt(0); at%blockGrain != 0 || at > len(b.Mem) {
			t.Errorf("slots begin at byte %d of %d, which is not where a page begins", at, len(b.Mem))
		}
	}
}
