package merge_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// random returns blocks of 1 KiB at random places, of every rank or the same of all.
func random(ranks, blocks int, density float64, same bool) *Workload {
	w := &Workload{Blocks: blocks, BlockBytes: 1024}
	for v := range ranks {
		r := rand.New(rand.NewPCG(1, uint64(v)))
		if same {
			r = rand.New(rand.NewPCG(1, 0))
		}
		s := block.NewSet(blocks)
		for b := range blocks {
			if r.Float64() < density {
				s.Add(b)
			}
		}
		w.Sets = append(w.Sets, s)
	}
	return w
}

// Nothing is faster than the limits, and trees are close to them, even for some hundred blocks, on machines that only
// the cards limit.
func TestAgainstTheLimits(t *testing.T) {
	m := Machine{CardGBs: 12.5, LatencyUs: 5}
	for _, same := range []bool{false, true} {
		for _, density := range []float64{1, 0.3, 0.05} {
			w := random(4, 20_000, density, same)
			limit, workers := w.LimitUs(m.CardGBs)
			apart, err := treesTime(w, m, starsApart(4, 4))
			if err != nil {
				t.Fatal(err)
			}
			trees, err := treesTime(w, m, stars(4))
			if err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]struct{ us, limit, share float64 }{
				"aggregators apart": {apart.Us, limit, 0.5},
				"trees":             {trees.Us, workers, 0.8},
			} {
				if c.us < c.limit || c.limit < c.share*c.us {
					t.Errorf("%s, density %v, same places %v: %.0f us, the limit is %.0f", name, density, same, c.us, c.limit)
				}
			}
		}
	}
}

// A simulation by hand: one block, two ranks, one aggregator apart. A chunk with a block has 16 + 8 bytes in addition
// to the block's 1000.
func TestOneBlockByHand(t *testing.T) {
	w := random(2, 1, 1, true)
	w.BlockBytes = 1000
	f := starsApart(2, 1)
	got, err := treesTime(w, Machine{CardGBs: 1, BusGBs: 2, LatencyUs: 10, BeginUs: 100}, f)
	if err != nil {
		t.Fatal(err)
	}
	const p = 1.024 // us of a chunk on a card; half of it on a bus
	// There: bus, card, wire, and the aggregator's card receives both. Back: two leave its card, and the aggregator learns
	// that their slots are free.
	want := 100 + p/2 + p + 10 + 2*p + 2*p + 10 + p + p/2 + 10
	if math.Abs(got.Us-want) > 1e-6 || got.Sent[0] != 1024 || got.Received[1] != 1024 {
		t.Errorf("%+v, want %v us and 1024 bytes each way", got, want)
	}
}

// On one chain each edge carries the blocks of its lower side upwards, and the blocks that this side lacks downwards.
func TestBytesOfAChain(t *testing.T) {
	w := &Workload{Blocks: 100, BlockBytes: 1024}
	for v := range 3 { // disjoint, 10 blocks each
		s := block.NewSet(100)
		for b := range 10 {
			s.Add(30*v + b)
		}
		w.Sets = append(w.Sets, s)
	}
	got, err := treesTime(w, Machine{CardGBs: 1},
		Forest{Parents: [][]int{{-1, 0, 1}}, Shares: []float64{1}, Stripe: 1, ChunkBytes: 64 << 10, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range [][2]float64{{10, 20}, {20 + 20, 10 + 10}, {10, 20}} { // blocks
		if sent, received := math.Floor(got.Sent[v]/1024), math.Floor(got.Received[v]/1024); sent != want[0] ||
			received != want[1] {
			t.Errorf("rank %d sent %v blocks and received %v, want %v", v, sent, received, want)
		}
	}
}

// The same workload takes the same time, to the last bit.
func TestSameEveryTime(t *testing.T) {
	printed := ""
	for range 2 {
		w := random(3, 2000, 0.2, false)
		a, err := treesTime(w, Machine{CardGBs: 3, BusGBs: 4, LatencyUs: 7}, starsApart(3, 2))
		if err != nil {
			t.Fatal(err)
		}
		b, err := treesTime(w, Machine{CardGBs: 3, BusGBs: 4, LatencyUs: 7}, stars(3))
		if err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(a, b); printed != "" && s != printed {
			t.Errorf("%s and then %s", printed, s)
		} else {
			printed = s
		}
	}
}

func TestWhatCannotBeSimulated(t *testing.T) {
	w := random(2, 10, 0.5, false)
	if _, err := treesTime(w, Machine{CardGBs: 1}, Forest{ChunkBytes: 1024}); err == nil {
		t.Error("no trees are taken")
	}
}
