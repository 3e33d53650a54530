package plan

import (
	"errors"
	"testing"
)

// TestScans proves the scans of all ways on 1 to 20 ranks, and that none of them passes for the other kind.
func TestScans(t *testing.T) {
	for size := 1; size <= 20; size++ {
		for _, way := range []Way{AtOnce, InRounds, InARow} {
			for kind, other := range map[Kind]Kind{Scan: ExScan, ExScan: Scan} {
				p, err := NewScan(kind, size, way)
				if err != nil {
					t.Fatalf("%v of %d ranks: %v", kind, size, err)
				}
				for _, slots := range []int{1, 2, 8} {
					if err := Verify(p, slots); err != nil {
						t.Errorf("%v of %d ranks, %d slots: %v", kind, size, slots, err)
					}
				}
				wrong := *p
				wrong.Kind = other
				if err := Verify(&wrong, 2); size > 1 && !errors.As(err, new(*VerifyError)) {
					t.Errorf("%v of %d ranks passes for a %v: %v", kind, size, other, err)
				}
			}
		}
	}
}
