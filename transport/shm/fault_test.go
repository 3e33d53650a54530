package shm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport/transporttest"
)

func TestTrafficBetweenProcesses(t *testing.T) {
	for _, arg := range []string{"2 64 20000", "4 4096 5000", "16 100032 300"} {
		t.Run(arg, func(t *testing.T) {
			f := start(t, "traffic", arg)
			for r := range 2 {
				if got := f.hear(r); got != "done" {
					t.Errorf("rank %d says %q", r, got)
				}
			}
			for r := range 2 {
				f.say(r, "end")
				f.wait(r)
			}
		})
	}
}

// ended is what every rank but r must say about a death of r.
func ended(r string) string {
	return "aborted: rank " + r + ": rank " + r + "'s process ended (its connection closed)"
}

// TestKilledWhileHolding kills a rank that has published one chunk and holds a
// half-written slot: the chunk arrives, the half does not, and all others see
// the same fault.
func TestKilledWhileHolding(t *testing.T) {
	f := start(t, "hold", "4")
	if got := f.hear(1); got != "holding" {
		t.Fatalf("rank 1 says %q", got)
	}
	if got := f.hear(0); got != "chunk 7 of 100 bytes" {
		t.Fatalf("rank 0 says %q", got)
	}
	if err := f.procs[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []int{0, 2, 3} {
		if got := f.hear(r); got != ended("1") {
			t.Errorf("rank %d says %q", r, got)
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
		if err := f.procs[victim].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for r := range size {
			if r == victim {
				continue
			}
			if got := f.hear(r); got != ended(strconv.Itoa(victim)) {
				t.Errorf("rank %d of %d says %q after rank %d was killed", r, size, got, victim)
			}
			f.wait(r)
		}
		f.end()
	}
}

// TestLeaderKilled: the members learn it from their own connections.
func TestLeaderKilled(t *testing.T) {
	f := start(t, "wait", "3")
	if err := f.procs[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []int{1, 2} {
		if got := f.hear(r); got != ended("0") {
			t.Errorf("rank %d says %q", r, got)
		}
		f.wait(r)
	}
}

// TestLateDeath: a rank is killed when all have opened the segment, and before
// all know that. Some are connected then and some are told of the death; the
// former name the rank that was killed, and not one that gave up because of it.
func TestLateDeath(t *testing.T) {
	for _, connected := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("rank %d is connected", connected), func(t *testing.T) {
			f := start(t, "late death", "4")
			blobs := make([]string, len(f.procs))
			for r := range blobs {
				blobs[r] = f.hear(r)
			}
			const dead = 2
			if err := f.procs[dead].Process.Kill(); err != nil {
				t.Fatal(err)
			}
			f.say(connected, strings.Join(blobs, " "))
			for r := range blobs {
				if r != connected && r != dead {
					f.say(r, fmt.Sprint(lostWord, dead))
				}
			}
			if got := f.hear(connected); !strings.Contains(got, "rank 2 ") || !strings.Contains(got, "was killed") &&
				!strings.Contains(got, "process ended") {
				t.Errorf("rank %d says %q, want that rank 2 was killed", connected, got)
			}
			f.wait(connected)
		})
	}
}

// TestStopped: a rank that is stopped for longer than the grace is not dead;
// when it goes on, so do the others.
func TestStopped(t *testing.T) {
	f := start(t, "leave", "2")
	signal := func(s os.Signal) {
		t.Helper()
		if err := f.procs[1].Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	time.Sleep(DefaultGrace + 50*time.Millisecond)
	f.say(0, "look")
	if got := f.hear(0); !strings.HasPrefix(got, "false") {
		t.Errorf("rank 0 sees a fault of a stopped rank: %q", got)
	}
	signal(syscall.SIGCONT)
	f.say(1, "send")
	if got := f.hear(1); got != "sent" {
		t.Errorf("rank 1 says %q", got)
	}
	f.say(1, "return")
	f.wait(1)
}

// TestCloseIsNoFault: a process that closes before it ends is no fault, whether
// it is a member or the leader.
func TestCloseIsNoFault(t *testing.T) {
	f := start(t, "leave", "3")
	for _, r := range []int{1, 0} {
		f.say(r, "close")
		if got := f.hear(r); got != "closed" {
			t.Fatalf("rank %d says %q", r, got)
		}
		f.say(r, "return")
		f.wait(r)
		time.Sleep(DefaultGrace + 50*time.Millisecond)
		f.say(2, "look")
		if got := f.hear(2); !strings.HasPrefix(got, "false") {
			t.Errorf("rank 2 sees a fault after rank %d closed: %q", r, got)
		}
	}
}

// awaitFault waits until a rank sees a fault.
func (f *family) awaitFault(r int) {
	f.t.Helper()
	for end := time.Now().Add(transporttest.Limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f.say(r, "look"); strings.HasPrefix(f.hear(r), "true") {
			return
		}
	}
	f.t.Fatalf("rank %d sees no fault", r)
}

// TestExitWithoutClose: exit code 0 does not make up for a Close that is
// missing.
func TestExitWithoutClose(t *testing.T) {
	f := start(t, "leave", "3")
	f.say(1, "exit")
	f.wait(1)
	f.awaitFault(0)
	for _, r := range []int{0, 2} {
		f.say(r, "look")
		if got := f.hear(r); got != "true 1 rank 1's process ended (its connection closed)" {
			t.Errorf("rank %d sees %q", r, got)
		}
	}
}

// TestAbortComesFirst: a fault reported within the grace is the one elected,
// not the broken connection.
func TestAbortComesFirst(t *testing.T) {
	f := start(t, "leave, long grace", "3")
	if err := f.procs[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // long enough for the others to see it
	f.say(2, "abort")
	if got := f.hear(2); got != "aborted" {
		t.Fatalf("rank 2 says %q", got)
	}
	for _, r := range []int{0, 2} {
		f.say(r, "look")
		if got := f.hear(r); got != "true 2 abort of the test" {
			t.Errorf("rank %d sees %q", r, got)
		}
		f.say(r, "return") // Close does not wait for the grace
		f.wait(r)
	}
}

// TestNothingLeft: the socket of a set exists while its ranks live, and is
// gone when they were all killed.
func TestNothingLeft(t *testing.T) {
	f := start(t, "nothing", "3")
	if !socketExists(t, f.address) {
		t.Errorf("no socket %s while the ranks are connected", f.address)
	}
	for _, cmd := range f.procs {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
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
