package collective

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

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
