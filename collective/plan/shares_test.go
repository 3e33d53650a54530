package plan

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Shares cover the message once, begin at whole quanta and are as near to
// their weights as the quantum allows.
func TestSharesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(1e-9, 1e9), 1, 20).Draw(t, "weights")
		count := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "count")
		quantum := rapid.OneOf(rapid.Int64Range(1, 64), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "quantum")
		p := &Plan{}
		total := 0.0
		for _, w := range weights {
			p.Lanes = append(p.Lanes, Lane{Weight: w})
			total += w
		}
		cuts := p.Cuts()
		before, sum := int64(0), 0.0
		for i := range cuts {
			at := CutAt(count, cuts[i], quantum)
			if at < before || at > count || (at%quantum != 0 && at != count) {
				t.Fatalf("cut %d at %d after %d, of %d by %d", i, at, before, count, quantum)
			}
			if i > 0 {
				sum += weights[i-1]
			}
			// Half a quantum, one element, and 2^-32 of the message per weight.
			off := float64(quantum)/2 + 1 + float64(count)*float64(len(weights)+1)/(1<<32)
			if want := sum / total * float64(count); math.Abs(float64(at)-want) > off {
				t.Fatalf("cut %d at %d, want %.1f give or take %.1f", i, at, want, off)
			}
			before = at
		}
		if cuts[0] != 0 || before != count {
			t.Fatalf("shares cover %d..%d of %d", CutAt(count, cuts[0], quantum), before, count)
		}
	})
}

// The lanes of a part share that part, for any weights of the other parts' lanes, and parts begin where they must, at
// no quantum.
func TestSharesOfParts(t *testing.T) {
	p := &Plan{Lanes: []Lane{{Part: 0, Weight: 1}, {Part: 0, Weight: 3}, {Part: 1, Weight: 5}, {Part: 2, Weight: 1},
		{Part: 2, Weight: 1}}}
	want := []int64{0, 32, 101, 202, 250, 303}
	for i, cut := range p.Cuts() {
		if got := CutAt(101, cut, 16); got != want[i] {
			t.Errorf("cut %d at %d, want %d", i, got, want[i])
		}
	}
}

func TestSharesByHand(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		count   int64
		quantum int64
		want    []int64
	}{
		{[]float64{1, 1}, 10, 1, []int64{0, 5, 10}},
		{[]float64{1, 1}, 10, 4, []int64{0, 4, 10}},
		{[]float64{1, 2, 1}, 64, 16, []int64{0, 16, 48, 64}},
		{[]float64{1, 1}, 16, 16, []int64{0, 16, 16}}, // one quantum: all on one lane
		{[]float64{1, 1}, 1, 16, []int64{0, 0, 1}},
		{[]float64{3}, 0, 16, []int64{0, 0}},
		{[]float64{1e300, 1e-300}, 100, 1, []int64{0, 100, 100}},
	} {
		p := &Plan{}
		for _, w := range c.weights {
			p.Lanes = append(p.Lanes, Lane{Weight: w})
		}
		for i, cut := range p.Cuts() {
			if got := CutAt(c.count, cut, c.quantum); got != c.want[i] {
				t.Errorf("weights %v, %d elements by %d: cut %d at %d, want %d", c.weights, c.count, c.quantum, i, got, c.want[i])
			}
		}
	}
}
