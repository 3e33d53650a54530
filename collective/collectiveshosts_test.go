package collective

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// TestHostsHarness makes every collective with ranks distributed over hosts in any way, in every shape of plan for
// hosts and with the choice by price, over even and uneven networks, and compares all memory with the oracle. Planning
// takes most of the time: of six shapes a plain go test tries one, and another one for other numbers.
func TestHostsHarness(t *testing.T) {
	testutil.Long(t, "TestHarness makes the same calls, on one host")
	testutil.OneProcessor(t)
	for _, size := range harnessSizes() {
		for hosts := 2; hosts <= min(4, size); hosts++ {
			if testutil.Race && (size > 5 || size > 3 && hosts != 3) {
				continue
			}
			for i, s := range append([]string{""}, hostsAlgorithms...) { // the first one: by price
				if (size+hosts+i)%6 > 0 && !testutil.Thorough() && !testutil.Race {
					continue
				}
				t.Run(fmt.Sprintf("ranks=%d/hosts=%d/%s", size, hosts, cmp.Or(s, "by price")), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(uint64(size), uint64(hosts)<<8|seedOf(s)))
					g := testutil.ScatteredHosts(size, hosts, rng)
					opts := []Option{WithGraph(g), WithAlgorithm(s)}
					if slot := slotSizes[rng.IntN(len(slotSizes))]; slot.slots > 0 {
						opts = append(opts, WithSlots(slot.slots, slot.bytes))
					}
					tryHosts(t, g, s, rng, opts)
				})
			}
		}
	}
}

// tryHosts makes some of the calls that run by algorithm s, or some of all calls if s is empty.
func tryHosts(t *testing.T, g *topo.Graph, s string, rng *rand.Rand, opts []Option) {
	size := g.Ranks
	seen := make(map[plan.Kind]bool)
	var all []testCase
	for _, of := range localAlgorithms {
		for _, c := range casesFor(of, size) {
			if !seen[c.kind] && (s == "" || fits(s, c.kind, g)) {
				all = append(all, c)
			}
		}
		for _, kind := range kinds {
			seen[kind] = seen[kind] || fits(of, kind, topo.UniformGraph(size))
		}
	}
	few, fewLarge := 12, 1
	if testutil.Race {
		few, fewLarge = 4, 0
	}
	cases := drawn(all, few, fewLarge, rng)
	mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
		for i, tc := range cases {
			tr := tc.typed(c, tc.call)
			if err := tr.run(t.Context()); err != nil {
				return fmt.Errorf("case %d, %v: %w", i, tr, err)
			}
			if err := tr.check(); err != nil {
				return fmt.Errorf("case %d: %w", i, err)
			}
			if choice, err := c.Choice(tc.kind, 0, 64); err != nil || s != "" && len(all) > 0 &&
				!strings.HasPrefix(choice.Algorithm, s) && g.Ranks > 1 && several(g) {
				return fmt.Errorf("case %d: %v ran by %s: %v", i, tr, choice.Algorithm, err)
			}
		}
		return nil
	}, opts...)
}

// several reports whether some host of g has several ranks, so that algorithms have both
// parts of their names.
func several(g *topo.Graph) bool {
	for _, ranks := range g.ByHost() {
		if len(ranks) > 1 {
			return true
		}
	}
	return false
}
