package collective

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestHarness makes every collective with every element type and operation, in
// place and not, from one element to many, in every algorithm over links of
// several sizes, and compares all memory with the oracle.
func TestHarness(t *testing.T) {
	everyComm(t, harnessSizes(), func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		cases := draw(t, casesFor(s, size), rng)
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			for i, tc := range cases {
				tr := tc.typed(c, tc.call)
				if err := tr.run(t.Context()); err != nil {
					return fmt.Errorf("case %d, %v: %w", i, tr, err)
				}
				if err := tr.check(); err != nil {
					return fmt.Errorf("case %d: %w", i, err)
				}
			}
			return nil
		}, opts...)
	})
}
