package tree

import (
	"math/bits"
	"testing"
)

// Every binomial tree is valid, and takes as many rounds as doublings reach all ranks.
func TestBinomial(t *testing.T) {
	for n := 1; n <= 70; n++ {
		for root := range n {
			tr := Binomial(n, root)
			if err := tr.Validate(n); err != nil {
				t.Fatalf("%d ranks, root %d: %v", n, root, err)
			}
			last := 0
			for v, p := range tr.Parent {
				last = max(last, tr.Round[v])
				if p >= 0 && p != root && tr.Round[v] >= tr.Round[p] {
					t.Fatalf("%d ranks, root %d: rank %d sends in round %d, its parent %d in %d", n, root, v, tr.Round[v], p,
						tr.Round[p])
				}
			}
			if want := bits.Len(uint(n - 1)); tr.Root != root || last != want {
				t.Fatalf("%d ranks, root %d: root %d, %d rounds, want %d", n, root, tr.Root, last, want)
			}
		}
	}
}
