package collective

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/testutil"
)

var coalescedTypes = []pieces{
	coalescing(int8s), coalescing(uint64s), coalescing(float16s), coalescing(bfloat16s), coalescing(float32s),
	coalescing(float64s),
}

// TestMixedForms makes long random sequences of all collectives with random roots. Each is a plain call, a Request that
// is in flight with many others, or coalesced; ranks wait for random calls and test them, at random times. Memory is
// checked at the end, when nothing may touch it any more.
func TestMixedForms(t *testing.T) {
	testutil.Long(t, "TestHarness makes the same calls")
	calls := testutil.Count(100, 400)
	if testutil.Race {
		calls = 60
	}
	everyComm(t, []int{1, 2, 3, 5, 8}, func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		if testutil.Race && size != 3 {
			return
		}
		seed := rng.Uint64()
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			shared, own := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.in.Rank+1)))
			return mixedForms(t, c, shared, own, calls/size)
		}, opts...)
	})
}

func mixedForms(t *testing.T, c *Comm, shared, own *rand.Rand, calls int) error {
	var trials []trial
	var requests []Request
	for range calls {
		tr := randomTrial(c, shared)
		trials = append(trials, tr)
		if shared.IntN(4) == 0 && own.IntN(2) == 0 { // another rank may do the same call in flight
			if err := tr.run(t.Context()); err != nil {
				return fmt.Errorf("%v: %w", tr, err)
			}
			continue
		}
		r, err := tr.start()
		if err != nil {
			return fmt.Errorf("%v: %w", tr, err)
		}
		requests = append(requests, r)
		switch some := requests[own.IntN(len(requests))]; own.IntN(8) {
		case 0:
			if err := some.Wait(t.Context()); err != nil {
				return err
			}
			if done, err := some.Test(); !done || err != nil {
				return fmt.Errorf("Test after Wait: %v, %v", done, err)
			}
		case 1:
			if _, err := some.Test(); err != nil {
				return err
			}
		}
	}
	if err := requests[len(requests)-1].Wait(t.Context()); err != nil {
		return err
	}
	if err := Barrier(t.Context(), c); err != nil {
		return err
	}
	for i, tr := range trials {
		if err := tr.check(); err != nil {
			return fmt.Errorf("call %d of %d: %w", i, calls, err)
		}
	}
	return nil
}

// TestPersistent runs prepared calls of every kind again and again, in turn,
// plain and in flight.
func TestPersistent(t *testing.T) {
	const rounds = 6
	everyComm(t, []int{1, 2, 4, 7}, func(t *testing.T, size int, s string, rng *rand.Rand, opts ...Option) {
		if testutil.Race && size != 4 {
			return
		}
		seed := rng.Uint64()
		mustRun(t, size, func(_ *fakeWorld, c *Comm) error {
			rng := rand.New(rand.NewPCG(seed, 0))
			var trials []trial
			var prepared []*Persistent
			for i, kind := range kinds {
				if kind == plan.Barrier {
					continue // needs no preparation
				}
				cl := call{kind: kind, root: rng.IntN(size), count: rng.IntN(2000), inPlace: i%2 == 0}
				if reduces(kind) {
					cl.op = opsOf(kind)[rng.IntN(len(opsOf(kind)))]
				}
				tr := elementTypes[rng.IntN(len(elementTypes))](c, cl)
				p, err := tr.prepare()
				if err != nil {
					return fmt.Errorf("%v: %w", tr, err)
				}
				trials, prepared = append(trials, tr), append(prepared, p)
			}
			for round := range rounds {
				if err := runPrepared(t, trials, prepared, round%2 == 0); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		}, opts...)
	})
}

// runPrepared runs each call once, from its first input, and checks it.
func runPrepared(t *testing.T, trials []trial, prepared []*Persistent, inFlight bool) error {
	var last Request
	for i, p := range prepared {
		trials[i].reset()
		if !inFlight {
			if err := p.Run(t.Context()); err != nil {
				return fmt.Errorf("%v: %w", trials[i], err)
			}
			continue
		}
		r, err := p.Start()
		if err != nil {
			return fmt.Errorf("%v: %w", trials[i], err)
		}
		last = r
	}
	if err := last.Wait(t.Context()); err != nil {
		return err
	}
	for _, tr := range trials {
		if err := tr.check(); err != nil {
			return err
		}
	}
	return nil
}
