package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/shm"
)

// links opens links of a host for the probes.
func links(t *testing.T, size, slotBytes int) []transport.Endpoint {
	layout := transport.Layout{Size: size, Slots: Slots, SlotBytes: slotBytes}
	return testutil.Links(t, size, func(w *testutil.World) (transport.Endpoint, error) {
		return shm.Connect(t.Context(), shm.Config{Rank: w.Rank(), Layout: layout, Key: make([]byte, shm.KeyBytes),
			JobID: "test", Exchange: w.AllGather})
	})
}

// TestScheduleMeetsEveryPairOnce: a turn has no rank twice and at most the wanted number of pairs; over all turns every
// pair is there once.
func TestScheduleMeetsEveryPairOnce(t *testing.T) {
	for size := 2; size <= 20; size++ {
		for width := 1; width <= 5; width++ {
			seen := make(map[[2]int]int)
			for i, turn := range schedule(width, pairsOf(size)) {
				busy := make(map[int]bool)
				for _, p := range turn {
					if p[0] >= p[1] || p[1] >= size || busy[p[0]] || busy[p[1]] {
						t.Fatalf("%d ranks, turn %d: pairs %v", size, i, turn)
					}
					busy[p[0]], busy[p[1]] = true, true
					seen[p]++
				}
				if len(turn) > width {
					t.Fatalf("%d ranks, turn %d: %d pairs at once, want at most %d", size, i, len(turn), width)
				}
			}
			for p, times := range seen {
				if times != 1 {
					t.Fatalf("%d ranks: pair %v measured %d times", size, p, times)
				}
			}
			if want := size * (size - 1) / 2; len(seen) != want {
				t.Fatalf("%d ranks: %d pairs, want %d", size, len(seen), want)
			}
		}
	}
}

// pairsOf returns all pairs of the given number of ranks.
func pairsOf(size int) (pairs [][2]int) {
	for _, round := range network.Rounds(size) {
		pairs = append(pairs, round...)
	}
	return pairs
}

func measureAll(t *testing.T, size int, body func(ctx context.Context, ep transport.Endpoint, rank int) ([]Pair,
	error)) ([]Pair, []error) {
	t.Helper()
	eps := links(t, size, SlotBytes)
	pairs, errs := make([][]Pair, size), make([]error, size)
	var all sync.WaitGroup
	for r, ep := range eps {
		all.Go(func() { pairs[r], errs[r] = body(t.Context(), ep, r) })
	}
	all.Wait()
	var flat []Pair
	for r, ep := range eps {
		flat = append(flat, pairs[r]...)
		if err := ep.Close(); err != nil {
			t.Error(err)
		}
	}
	return flat, errs
}

// TestMeasureSeesEveryLink: the graph made from the ranks' measurements is complete and its figures are possible ones.
func TestMeasureSeesEveryLink(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 8} {
		pairs, errs := measureAll(t, size, func(ctx context.Context, ep transport.Endpoint, rank int) ([]Pair, error) {
			return Measure(ctx, ep, rank, size, 2, pairsOf(size), nil)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		g := Graph(size, slices.Values(pairs))
		if err := g.Validate(); err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
		if want := size * (size - 1) / 2; len(g.Links) != want {
			t.Errorf("%d ranks: %d links, want %d", size, len(g.Links), want)
		}
		for _, l := range g.Links {
			if l.GBytesPerSecond < 0.001 || l.GBytesPerSecond > 1e4 || l.LatencyUs <= 0 || l.LatencyUs > 1e6 ||
				l.Source != topo.Measured {
				t.Errorf("%d ranks: link %+v", size, l)
			}
		}
	}
}

// TestMeasureEndsWithTheRanks: a rank that never comes does not hold the others forever.
func TestMeasureEndsWithTheRanks(t *testing.T) {
	_, errs := measureAll(t, 3, func(ctx context.Context, ep transport.Endpoint, rank int) ([]Pair, error) {
		if rank == 1 {
			time.Sleep(30 * time.Millisecond)
			ep.Abort(transport.Fault{Rank: 1, Text: "lost: killed by SIGKILL"})
			return nil, nil
		}
		return Measure(ctx, ep, rank, 3, 2, pairsOf(3), nil)
	})
	for _, r := range []int{0, 2} {
		if errs[r] == nil || !strings.Contains(errs[r].Error(), "SIGKILL") {
			t.Errorf("rank %d: %v, want the fault", r, errs[r])
		}
	}
	_, errs = measureAll(t, 2, func(ctx context.Context, ep transport.Endpoint, rank int) ([]Pair, error) {
		if rank == 1 {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		return Measure(ctx, ep, rank, 2, 2, pairsOf(2), nil)
	})
	if !errors.Is(errs[0], context.DeadlineExceeded) {
		t.Errorf("rank 0: %v, want its context's error", errs[0])
	}
}

// TestGraphIsSteady: measurements that differ by noise only give the same graph;
// a link that is really slower stays slower.
func TestGraphIsSteady(t *testing.T) {
	quiet := Graph(3, slices.Values([]Pair{{A: 0, B: 1, LatencyUs: 1, GBytesPerSecond: 10},
		{A: 0, B: 2, LatencyUs: 1.2, GBytesPerSecond: 12}, {A: 1, B: 2, LatencyUs: 2, GBytesPerSecond: 11}}))
	if !quiet.IsUniform() {
		t.Errorf("links within noise became\n%v", quiet)
	}
	slow := Graph(3, slices.Values([]Pair{{A: 0, B: 1, LatencyUs: 1, GBytesPerSecond: 10},
		{A: 0, B: 2, LatencyUs: 1, GBytesPerSecond: 10.4}, {A: 1, B: 2, LatencyUs: 1, GBytesPerSecond: 1.01}}))
	if a, b, c := slow.Links[0], slow.Links[1], slow.Links[2]; a.GBytesPerSecond != b.GBytesPerSecond ||
		c.GBytesPerSecond > a.GBytesPerSecond/5 {
		t.Errorf("a ten times slower link became\n%v", slow)
	}
}

func TestCache(t *testing.T) {
	cache := Cache{Dir: t.TempDir()}
	file := cache.Path(3, 2)
	if g, err := cache.Load(file, 3); g != nil || err != nil {
		t.Fatalf("empty cache: %v, %v", g, err)
	}
	want := &Findings{Places: sockets(3), Pairs: []Pair{{A: 0, B: 1, LatencyUs: 1, GBytesPerSecond: 10},
		{A: 0, B: 2, LatencyUs: 1, GBytesPerSecond: 10}, {A: 1, B: 2, LatencyUs: 1, GBytesPerSecond: 1}}}
	if err := cache.Store(file, want); err != nil {
		t.Fatal(err)
	}
	got, err := cache.Load(file, 3)
	if err != nil || got.Graph().Digest() != want.Graph().Digest() {
		t.Fatalf("stored\n%v\nloaded\n%v, %v", want, got, err)
	}
	if _, err := cache.Load(file, 4); err == nil || !strings.Contains(err.Error(), "3 ranks, not 4") {
		t.Errorf("a graph of another size: %v", err)
	}
	if cache.Path(3, 2) == cache.Path(3, 4) || cache.Path(3, 2) == cache.Path(2, 2) {
		t.Error("the file does not depend on ranks and cores")
	}
	if err := os.WriteFile(file, []byte(`{"places": [], "pairs": [{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Load(file, 3); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
		t.Errorf("a cut file: %v, want its name", err)
	}
	left, err := filepath.Glob(filepath.Join(cache.Dir, ".graph-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTryLending: ranks that can read each other's memory measure the time for that, and the time of a payload through
// slots; the payload arrives as it was sent.
func TestTryLending(t *testing.T) {
	pairs, errs := measureAll(t, 3, func(ctx context.Context, ep transport.Endpoint, rank int) ([]Pair, error) {
		m := newMeter(ctx, ep, 0, rank, 3, LendMany)
		if lends, _ := ep.Reaches((rank + 1) % 3); !lends {
			return nil, errors.New("these ranks cannot lend")
		}
		if rank == 2 {
			return nil, nil
		}
		for i := range m.block {
			m.block[i] = byte(i*7 + i>>8 + rank)
		}
		if rank == 1 {
			err := m.follow(0)
			for i, b := range m.block {
				if b != byte(i*7+i>>8) {
					return nil, fmt.Errorf("byte %d is %d", i, b)
				}
			}
			return nil, err
		}
		g, err := m.tryLending(1)
		return []Pair{{GBytesPerSecond: min(g.Few, g.Many)}}, errors.Join(err, m.send(1, []byte{stop}))
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(pairs) != 1 || pairs[0].GBytesPerSecond <= 0 {
		t.Errorf("measured %+v", pairs)
	}
}

// TestLending: all ranks get the same gain, whatever the size of their slots, and 0 where payloads cannot be lent.
func TestLending(t *testing.T) {
	for _, size := range []int{1, 2, 5} {
		for _, slot := range []int{64, SlotBytes, 4 * SlotBytes} {
			eps := links(t, size, slot)
			gains, errs := make([]Gains, size), make([]error, size)
			var all sync.WaitGroup
			for r, ep := range eps {
				all.Go(func() { gains[r], errs[r] = Lending(t.Context(), ep, 3, r, size) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for r, gain := range gains {
				if gain != gains[0] || (gain.Few > 0) != (size > 1) || (gain.Many > 0) != (size > 1) {
					t.Errorf("%d ranks, slots of %d bytes: rank %d has a gain of %v, rank 0 %v", size, slot, r, gain, gains[0])
				}
			}
		}
	}
}

// TestCredible: rates and latencies that shared memory cannot have are those of a busy machine, and one class of pairs
// suffices. A class has one where the median of its pairs is one. On one core all are possible.
func TestCredible(t *testing.T) {
	pair := func(a, b int, rate float64) Pair { return Pair{A: a, B: b, LatencyUs: 1, GBytesPerSecond: rate} }
	one, two := make([]Place, 3), sockets(3) // of which the pairs are of one class, and of two
	for _, c := range []struct {
		name   string
		places []Place
		pairs  []Pair
		want   bool
	}{
		{"usual", one, []Pair{pair(0, 1, 24), pair(0, 2, 20), pair(1, 2, 22)}, true},
		{"under load", one, []Pair{pair(0, 1, 0.014), pair(0, 2, 0.02), pair(1, 2, 24)}, false},
		{"one pair of three", one, []Pair{pair(0, 1, 0.014), pair(0, 2, 21), pair(1, 2, 24)}, true},
		{"the least", one, []Pair{pair(0, 1, 1)}, true},
		{"below it", one, []Pair{pair(0, 1, 0.999)}, false},
		{"no number", one, []Pair{pair(0, 1, math.NaN())}, false},
		{"none", one, nil, false},
		{"one rank", one[:1], nil, true},
		{"slow pings", one, []Pair{{A: 0, B: 1, LatencyUs: 1020, GBytesPerSecond: 9}}, false},
		{"the longest", one, []Pair{{A: 0, B: 1, LatencyUs: 100, GBytesPerSecond: 9}}, true},
		{"two classes", two, []Pair{pair(0, 1, 24), pair(0, 2, 9), pair(1, 2, 9)}, true},
		{"one of two", two, []Pair{pair(0, 1, 24), pair(0, 2, 0.01), pair(1, 2, 0.02)}, false},
		{"none of the other", two, []Pair{pair(0, 1, 24)}, false},
	} {
		f := &Findings{Places: c.places}
		f.Add(c.pairs)
		if got := f.Credible(2); got != c.want {
			t.Errorf("%s: credible %v, want %v", c.name, got, c.want)
		}
		if !f.Credible(1) {
			t.Errorf("%s: not credible on one core", c.name)
		}
	}
}

// TestAdd: of two measurements of a pair the better figures count.
func TestAdd(t *testing.T) {
	var f Findings
	f.Add([]Pair{{0, 1, 2, 0.1}, {1, 2, 5, 8}})
	f.Add([]Pair{{0, 1, 3, 9}, {0, 2, 1, 7}, {1, 2, 4, 0.2}})
	if want := []Pair{{0, 1, 2, 9}, {1, 2, 4, 8}, {0, 2, 1, 7}}; !slices.Equal(f.Pairs, want) {
		t.Errorf("%v, want %v", f.Pairs, want)
	}
}
