package shm

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
)

func TestTrafficBetweenProcesses(t *testing.T) {
	for _, arg := range []string{"2 64 20000", "4 4096 5000", "16 100032 300"} {
		t.Run(arg, func(t *testing.T) {
			f := start(t, "traffic", arg)
			for r := range 2 {
				if got := f.hear(r); got != "done" {
					t.Errorf("rank %d reports %q", r, got)
				}
			}
			for r := range 2 {
				f.say(r, "end")
				f.wait(r)
			}
		})
	}
}

// ended is the line that every rank but r must send about a death of r.
func ended(r string) string {
	return "aborted: rank " + r + ": rank " + r + " was killed"
}

// TestKilledWhileHolding kills a rank that has published one chunk and holds a
// half-written slot: the chunk arrives, the half does not, and all others see
// the same fault.
func TestKilledWhileHolding(t *testing.T) {
	f := start(t, "hold", "4")
	if got := f.hear(1); got != "holding" {
		t.Fatalf("rank 1 reports %q", got)
	}
	if got := f.hear(0); got != "chunk 7 of 100 bytes" {
		t.Fatalf("rank 0 reports %q", got)
	}
	f.kill(1, 3)
	for _, r := range []int{0, 2, 3} {
		if got := f.hear(r); got != ended("1") {
			t.Errorf("rank %d reports %q", r, got)
		}
		f.wait(r)
	}
}

// TestKilledAtAnyMoment kills a rank of a busy ring at a random moment, many
// times: the others always see that rank's death and nothing else.
func TestKilledAtAnyMoment(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 12 {
		size := 2 + random.IntN(3)
		victim := random.IntN(size)
		f := start(t, "churn", strconv.Itoa(size))
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
		f.kill(victim, (victim+1)%size)
		for r := range size {
			if r == victim {
				continue
			}
			if got := f.hear(r); got != ended(strconv.Itoa(victim)) {
				t.Errorf("rank %d of %d reports %q after rank %d was killed", r, size, got, victim)
			}
			f.wait(r)
		}
		f.end()
	}
}

// TestMakerKilled checks that the members continue without the maker.
func TestMakerKilled(t *testing.T) {
	f := start(t, "wait", "3")
	f.kill(0, 2)
	for _, r := range []int{1, 2} {
		if got := f.hear(r); got != ended("0") {
			t.Errorf("rank %d reports %q", r, got)
		}
		f.wait(r)
	}
}

// TestNothingLeft checks that the socket of a set is gone once its ranks are connected.
func TestNothingLeft(t *testing.T) {
	f := start(t, "nothing", "3")
	for r := range f.procs {
		if got := f.hear(r); got != "connected" {
			t.Fatalf("rank %d reports %q", r, got)
		}
	}
	if socketExists(t, f.address) {
		t.Errorf("socket %s still exists", f.address)
	}
}

// socketExists looks for an abstract name among the unix sockets.
func socketExists(t *testing.T, name string) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/net/unix")
	testutil.Need(t, testutil.Proc, err)
	return strings.Contains(string(b), name)
}
