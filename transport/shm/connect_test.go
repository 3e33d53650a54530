//go:build linux

package shm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/call"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/internal/osys"
	"github.com/treerun/treerun/transport/internal/segment"
)

// TestRankFails checks that a failure on one rank is an error on all ranks, with the rank and the cause in its text,
// and that nothing stays open.
func TestRankFails(t *testing.T) {
	l := testutil.Pair(2, 64)
	l.Size = 4
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"short key": {func(c *Config) {
			if c.Rank == 2 {
				c.Key = c.Key[:31]
			}
		}, []string{"rank 2: ", "31 bytes"}},
		"two ranks": {func(c *Config) {
			if c.Rank != 1 {
				c.Key = nil
			}
		}, []string{"rank 0: ", "rank 2: ", "rank 3: ", "key of 0 bytes"}},
		"bad layout": {func(c *Config) {
			if c.Rank == 3 {
				c.Layout.SlotBytes = 65
			}
		}, []string{"rank 3: ", "65 bytes"}},
		"other layout": {func(c *Config) {
			if c.Rank == 3 {
				c.Layout.Slots = 4
			}
		}, []string{"rank 3: ", "or has another layout"}},
		"other size": {func(c *Config) {
			if c.Rank == 3 {
				c.Layout.Size = 5
			}
		}, []string{"rank 3: ", "exchange gave 4 blobs for 5 ranks"}},
		"other key": {func(c *Config) {
			if c.Rank == 1 {
				c.Key = []byte(strings.Repeat("x", KeyBytes))
			}
		}, []string{"rank 1: ", "does not know this job's key"}},
		"other job": {func(c *Config) {
			if c.Rank == 1 {
				c.JobID = "another"
			}
		}, []string{"rank 1: ", "does not know this job's key"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer checkLeft(t)()
			all, errs := connectAll(t, l, c.change)
			for r := range all {
				if all[r] != nil || errs[r] == nil {
					t.Fatalf("rank %d: endpoint %v, error %v", r, all[r], errs[r])
				}
				for _, part := range c.want {
					if !strings.Contains(errs[r].Error(), part) {
						t.Errorf("rank %d: error %q does not contain %q", r, errs[r], part)
					}
				}
			}
		})
	}
}

// checkLeft counts descriptors and mappings; the function that it returns fails the test if there are more.
func checkLeft(t *testing.T) func() {
	fds, maps := left(t)
	return func() {
		t.Helper()
		var f, m int
		for end := time.Now().Add(testutil.Limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			runtime.GC() // mappings end when nothing can reach them
			if f, m = left(t); f <= fds && m <= maps {
				return
			}
		}
		t.Errorf("%d descriptors and %d mappings left, %d and %d before", f, m, fds, maps)
	}
}

// left counts this process's descriptors and its mappings of segments.
func left(t *testing.T) (fds, maps int) {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	testutil.Need(t, testutil.Proc, err)
	b, err := os.ReadFile("/proc/self/maps")
	testutil.Need(t, testutil.Proc, err)
	return len(d), strings.Count(string(b), "memfd:treerun-")
}

// TestNothingLeftInProcess checks that Close releases descriptors and shared memory at once, and the addresses when the
// last user is gone.
func TestNothingLeftInProcess(t *testing.T) {
	mustClose(t, mustConnect(t, testutil.Pair(2, 64))) // the poller's own descriptors
	defer checkLeft(t)()
	lines := countMaps(t)
	_, others := left(t) // of earlier tests, which are still to be collected
	for range 20 {
		all := mustConnect(t, testutil.Pair(16, 1<<16))
		mustClose(t, all)
		if _, maps := left(t); maps > others {
			t.Fatalf("%d mappings of closed segments, %d before", maps, others)
		}
	}
	// Some mappings are the Go runtime's; the segments of 20 rounds, mapped by two ranks each, would be 40.
	for end := time.Now().Add(testutil.Limit); countMaps(t) > lines+20; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d mappings, %d before: the addresses of closed segments stay mapped", countMaps(t), lines)
		}
		runtime.GC()
	}
}

func countMaps(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	testutil.Need(t, testutil.Proc, err)
	return strings.Count(string(b), "\n")
}

func mustClose(t *testing.T, all []transport.Endpoint) {
	t.Helper()
	for _, e := range all {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStrays makes a crowd of strangers send garbage, nothing, or a descriptor without a proof, before and while the
// members connect.
func TestStrays(t *testing.T) {
	defer checkLeft(t)()
	l := testutil.Pair(2, 64)
	l.Size = 5
	from, _, err := newDoorbells()
	if err != nil {
		t.Fatal(err)
	}
	defer from.own.Close()
	other, err := osys.CreateSealed("treerun-stray", 4096, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = osys.CloseFD(other) }()
	stop := make(chan bool)
	var crowd sync.WaitGroup
	var strays atomic.Int64
	bother := func(name string) {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if from.own.SendFD(name, strayText(i), other) == nil {
				strays.Add(1)
			} else {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}
	all, errs := connectAll(t, l, func(c *Config) {
		exchange := c.Exchange
		c.Exchange = func(ctx context.Context, blob []byte) ([][]byte, error) {
			if r, err := reportOf(blob); err == nil && r.Bell != "" {
				crowd.Go(func() { bother(r.Bell) })
				time.Sleep(5 * time.Millisecond)
			}
			return exchange(ctx, blob)
		}
	})
	close(stop)
	crowd.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	} else {
		mustClose(t, all)
	}
	if n := strays.Load(); n < 50 {
		t.Errorf("only %d strays came", n)
	}
}

func strayText(i int) []byte {
	switch i % 4 {
	case 0:
		return []byte{0} // as a ring
	case 1:
		return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + strings.Repeat("x", 4096))
	case 2:
		return make([]byte, sha256.Size) // no proof
	}
	return make([]byte, sha256.Size-1)
}

// TestCanceled checks that Connect returns when its context ends while it waits for other ranks, and leaves nothing.
func TestCanceled(t *testing.T) {
	defer checkLeft(t)()
	for rank := range 2 {
		for rounds := range 2 {
			t.Run(fmt.Sprintf("rank %d after %d exchanges", rank, rounds), func(t *testing.T) { canceled(t, rank, rounds) })
		}
	}
}

// canceled connects one rank whose partner takes part in some exchanges only.
func canceled(t *testing.T, rank, rounds int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tab := newTable(2)
	partner := tab.exchange(1 - rank)
	go func() {
		r := knownReport(t, testutil.Pair(2, 64), 1-rank)
		for range rounds {
			_, _ = partner(ctx, reported(r, nil))
		}
		time.Sleep(10 * time.Millisecond)
		cancel()
	}()
	e, err := Connect(ctx, Config{Rank: rank, Layout: testutil.Pair(2, 64), Key: testKey, JobID: "test",
		Exchange: tab.exchange(rank)})
	if e != nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("endpoint %v, error %v, want a canceled Connect", e, err)
	}
}

// knownReport returns the first report of a rank that knows the key, and whose doorbell does not exist.
func knownReport(t *testing.T, l transport.Layout, rank int) report {
	m, err := segment.NewMap(l)
	if err != nil {
		t.Error(err)
		return report{}
	}
	c := &connecting{cfg: Config{Layout: l, Rank: rank, Key: testKey, JobID: "test"}, m: m}
	r := report{Bell: "treerun-nobody-listens-here"}
	r.Proof = c.proof(joins, rank, r.Bell)
	return r
}

// TestProofBits checks that a proof is valid for one key, job, layout, rank, doorbell and use.
func TestProofBits(t *testing.T) {
	l := testutil.Pair(2, 64)
	m, err := segment.NewMap(l)
	if err != nil {
		t.Fatal(err)
	}
	proof := func(change func(c *connecting), use string, rank int, bell string) [sha256.Size]byte {
		c := &connecting{cfg: Config{Layout: l, Key: testKey, JobID: "test"}, m: &segment.Map{Digest: m.Digest}}
		change(c)
		return c.proof(use, rank, bell)
	}
	none := func(*connecting) {}
	seen := map[[sha256.Size]byte]bool{}
	all := [][sha256.Size]byte{
		proof(none, joins, 1, "a"), proof(none, grants, 1, "a"), proof(none, joins, 0, "a"), proof(none, joins, 1, "b"),
		proof(func(c *connecting) { c.cfg.Key = make([]byte, KeyBytes) }, joins, 1, "a"),
		proof(func(c *connecting) { c.cfg.JobID = "job2" }, joins, 1, "a"),
		proof(func(c *connecting) { c.m.Digest[31] ^= 1 }, joins, 1, "a"),
	}
	for _, p := range all {
		seen[p] = true
	}
	if len(seen) != len(all) {
		t.Errorf("%d different proofs of %d", len(seen), len(all))
	}
	if proof(none, joins, 1, "a") != all[0] {
		t.Error("a proof is not the same twice")
	}
	// No bit of a report's doorbell, rank or proof can be changed.
	c := &connecting{cfg: Config{Layout: l, Key: testKey, JobID: "test"}, m: m}
	reports := []report{knownReport(t, l, 0), knownReport(t, l, 1)}
	if err := c.check(reports); err != nil {
		t.Error(err)
	}
	for at := range 8 * sha256.Size {
		other := slices.Clone(reports)
		other[1].Proof[at/8] ^= 1 << (at % 8)
		if err := c.check(other); !errors.Is(err, errProof) {
			t.Fatalf("bit %d changed: %v", at, err)
		}
	}
	if err := c.check([]report{reports[1], reports[0]}); !errors.Is(err, errProof) {
		t.Errorf("ranks exchanged: %v", err)
	}
}

// TestOneRank checks that a set of one rank needs no links and no partners.
func TestOneRank(t *testing.T) {
	all := mustConnect(t, transport.Layout{Size: 1, Slots: 2, SlotBytes: 64})
	all[0].Enter(&call.Header{Seq: 3})
	if got := all[0].Status(0).Call.Seq; got != 3 {
		t.Errorf("status has call %d, want 3", got)
	}
	mustClose(t, all)
}

// TestBadExchange checks that an exchange that breaks its own contract gives an error.
func TestBadExchange(t *testing.T) {
	for name, blobs := range map[string][][]byte{
		"nothing": nil, "empty": {{}, {}}, "long": {make([]byte, 5000), nil},
		"version": {append([]byte{9}, make([]byte, 60)...)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(t.Context(), Config{Layout: testutil.Pair(2, 64), Key: testKey,
				Exchange: func(context.Context, []byte) ([][]byte, error) { return blobs, nil }})
			if err == nil {
				t.Error("no error")
			}
		})
	}
	if _, err := Connect(t.Context(), Config{}); err == nil {
		t.Error("no Exchange: no error")
	}
}

// A set takes the addresses of its FIFOs, and memory for the pages that every call touches. A block takes the addresses
// of one part of the heap, also where a peer reads it.
func TestAddresses(t *testing.T) {
	l := testutil.Pair(16, 1<<16)
	l.HeapBytes = transport.MaxHeapBytes
	before, allocated := addresses(t), 0
	var sets [][]transport.Endpoint
	for range 50 {
		sets = append(sets, mustConnect(t, l))
	}
	for _, all := range sets {
		defer mustClose(t, all)
		var st syscall.Stat_t
		if err := syscall.Fstat(all[0].(*Endpoint).mapping.rooms.fd, &st); err != nil {
			t.Fatal(err)
		}
		allocated += int(st.Blocks * 512)
	}
	fifos := 50 * 2 * 2 * 16 << 16 // of two links, in two endpoints
	if took := addresses(t) - before; took > fifos+8<<20 {
		t.Errorf("50 sets take %d bytes of addresses, their FIFOs have %d", took, fifos)
	}
	if allocated > fifos/100 {
		t.Errorf("50 sets take %d bytes of memory before they are used", allocated)
	}
	before = addresses(t)
	b, err := sets[0][0].Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	fill(b, 7)
	at, _ := sets[0][0].Offset(b)
	seen, err := sets[0][1].View(0, at, len(b))
	if err != nil || checkFill(seen, 7) != nil {
		t.Errorf("state at a peer: %v, %v", checkFill(seen, 7), err)
	}
	if took := addresses(t) - before; took < 2*transport.HeapGrain || took > 16<<20 {
		t.Errorf("a block takes %d bytes of addresses, want two parts of %d", took, transport.HeapGrain)
	}
	if err := sets[0][0].Free(b); err != nil {
		t.Error(err)
	}
}

// addresses returns how many bytes of addresses this process has mapped as shared: those of the Go runtime itself,
// which it reserves in large parts at any time, are not counted.
func addresses(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	testutil.Need(t, testutil.Proc, err)
	sum := 0
	for line := range strings.Lines(string(b)) {
		var from, to uint64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if rights[3] == 's' {
			sum += int(to - from)
		}
	}
	return sum
}
