package collective

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/treerun/treerun/internal/testutil"
)

// TestModel runs random programs on all kinds of ranks, for each kind the number of checks of rapid: 40 programs, 100
// in all rounds, or the number given by -rapid.checks. A program that fails is shrunk.
//
//	go test ./collective -run 'TestModel$' -rapid.checks=10000 -timeout 2h
func TestModel(t *testing.T) {
	testutil.Long(t, "TestHarness makes the same calls")
	for i := range allModelRanks {
		m := &allModelRanks[i]
		t.Run(m.name, func(t *testing.T) {
			bytes := cmp.Or(m.bytes, maxProgramBytes)
			if testutil.Race {
				bytes = 128 << 10
			}
			programs := programs(len(m.hosts), bytes, false)
			limit, tries, ran, began := time.Minute, 1, 0, time.Now()
			var w modelWorld
			defer func() {
				if w != nil {
					w.end()
				}
			}()
			rapid.Check(t, func(rt *rapid.T) {
				p := programs.Draw(rt, "program")
				if w == nil {
					w = m.open(t)
				}
				for range tries {
					ran++
					if err := runOn(w, p, limit); err != nil {
						w.end()
						w, limit, tries = nil, 10*time.Second, 20 // the next one is a smaller one
						rt.Fatalf("%s: %v", m.name, err)
					}
				}
			})
			t.Logf("%d programs, %.0f a second", ran, float64(ran)/time.Since(began).Seconds())
		})
	}
}

// TestModelKilled kills one of two or three processes while they run programs of large payloads. Where a call of
// another rank returns no error, the data equals the data sent; any other error than a RankError fails.
// TREERUN_HARNESS=350 makes 2,100 kills of 6:
//
//	TREERUN_HARNESS=350 go test ./collective -run TestModelKilled -v -timeout 2h
func TestModelKilled(t *testing.T) {
	testutil.Long(t, "where ranks end does not depend on the build")
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("TREERUN_HARNESS")); err == nil {
		kills *= n
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	late := 0
	for i := range kills {
		m := &modelRanks{hosts: make([]int, 2+i%2), processes: true}
		failed, err := m.kill(t, rng)
		if err != nil {
			t.Fatalf("kill %d, seed %d: %v", i, seed, err)
		}
		if !failed {
			late++
		}
	}
	t.Logf("%d kills, of which %d were not seen by a rank", kills, late)
	if late == kills {
		t.Error("no kill was seen by a rank")
	}
}

// kill runs programs on new processes, of which it kills one after up to 100 ms. It reports whether the others have
// failed with a RankError, and returns any other error.
func (m *modelRanks) kill(t *testing.T, rng *rand.Rand) (failed bool, err error) {
	w := openProcesses(t, m)
	defer w.end()
	var all []program
	generator := programs(len(m.hosts), 64<<20, true)
	for range 30 {
		all = append(all, generator.Example(int(rng.Uint32())))
	}
	victim, after := rng.IntN(len(m.hosts)), time.Duration(rng.IntN(100_000))*time.Microsecond
	go func() {
		for _, p := range all {
			w.begin(p)
		}
	}()
	time.AfterFunc(after, func() { _ = w.ranks[victim].Process.Kill() })
	for left := (len(m.hosts) - 1) * len(all); left > 0; {
		select {
		case of := <-w.done:
			if of.rank == victim {
				if of.err != nil && !errors.Is(of.err, errTyped) && !errors.Is(of.err, errEnded) {
					return failed, of.err
				}
				continue
			}
			left--
			if failed = failed || of.err != nil; of.err != nil && !errors.Is(of.err, errTyped) {
				return failed, of.err
			}
		case <-time.After(time.Minute):
			return failed, errors.New("a rank still waits after a minute")
		}
	}
	return failed, nil
}
