package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueueOrder pushes and takes events in random turns, many of them at equal
// times, and compares with a sorted list: by time, of equals the older first.
func TestQueueOrder(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		type entry struct {
			at float64
			to int32
		}
		var q queue
		var want []entry
		now := 0.0
		for made := int32(0); made < 2000 || q.size > 0; {
			if made < 2000 && random.IntN(5) < 3 {
				at := now
				switch random.IntN(3) {
				case 0:
					at += float64(random.IntN(4)) // meets others
				case 1:
					at += random.ExpFloat64() * 1e3
				}
				q.push(at, stepped, made)
				want = append(want, entry{at, made})
				made++
				continue
			}
			if q.size == 0 {
				continue
			}
			slices.SortStableFunc(want, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
			at, e := q.pop()
			if first := want[0]; at != first.at || e.to != first.to {
				t.Fatalf("seed %d: took event %d at %v, want %d at %v", seed, e.to, at, first.to, first.at)
			}
			want = want[1:]
			now = at
		}
	}
}
