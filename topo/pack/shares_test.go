package pack

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func drawTrees(t *rapid.T) (rates, latencies []float64) {
	for range rapid.IntRange(1, 6).Draw(t, "trees") {
		rates = append(rates, float64(rapid.IntRange(1, 50).Draw(t, "rate")))
		latencies = append(latencies, float64(rapid.IntRange(0, 20).Draw(t, "latency")))
	}
	return rates, latencies
}

// The shares sum to the message, trees that have one end together, and those
// that have none could not even begin by then. The time is the one that
// halving finds.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates, latencies := drawTrees(t)
		bytes := float64(rapid.IntRange(0, 2_000_000).Draw(t, "bytes"))
		shares, end := Shares(rates, latencies, bytes)
		sum := 0.0
		for i, s := range shares {
			sum += s
			switch {
			case s < 0:
				t.Fatalf("tree %d has %v bytes", i, s)
			case s > 0 && !about(latencies[i]+s/rates[i]/1e3, end):
				t.Fatalf("tree %d ends at %v us, all end at %v", i, latencies[i]+s/rates[i]/1e3, end)
			case s == 0 && latencies[i] < end*(1-1e-9):
				t.Fatalf("tree %d is idle, and could begin at %v of %v us", i, latencies[i], end)
			}
		}
		if math.Abs(sum-bytes) > 1e-6*max(1, bytes) {
			t.Fatalf("the shares sum to %v of %v bytes", sum, bytes)
		}
		if want := timeByHalving(rates, latencies, bytes); bytes > 0 && !about(end, want) {
			t.Fatalf("%v us, want %v", end, want)
		}
	})
}

// timeByHalving looks for the time in which the trees move so many bytes.
func timeByHalving(rates, latencies []float64, bytes float64) float64 {
	lo, hi := 0.0, 1e7
	for range 100 {
		mid, moved := (lo+hi)/2, 0.0
		for i, b := range rates {
			moved += b * 1e3 * max(0, mid-latencies[i])
		}
		if moved < bytes {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// A tree gets a share above its crossover, and none below.
func TestCrossovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates, latencies := drawTrees(t)
		list := Crossovers(rates, latencies)
		if len(list) != len(rates) || list[0].Bytes != 0 {
			t.Fatalf("%v for %d trees", list, len(rates))
		}
		for i, c := range list {
			if i > 0 && c.Bytes < list[i-1].Bytes {
				t.Fatalf("not rising: %v", list)
			}
			above, _ := Shares(rates, latencies, c.Bytes*1.01+1)
			below, _ := Shares(rates, latencies, c.Bytes*0.99)
			if above[c.Tree] <= 0 || below[c.Tree] > 1e-6*c.Bytes {
				t.Fatalf("tree %d has %v bytes above %v, %v below", c.Tree, above[c.Tree], c.Bytes, below[c.Tree])
			}
		}
	})
	// Two trees: above b_1*(L_2-L_1). 50 GB/s for 3 us are 150,000 bytes.
	if list := Crossovers([]float64{25, 50}, []float64{9, 6}); list[0].Tree != 1 || list[1] != (Crossover{Tree: 0, Bytes: 150e3}) {
		t.Errorf("%v", list)
	}
}

// Above the array bound the trees together are faster at every size; at the
// bound they are not.
func TestArrayBound(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rates, latencies := drawTrees(t)
		rate := float64(rapid.IntRange(1, 100).Draw(t, "alone"))
		latency := float64(rapid.IntRange(0, 20).Draw(t, "alone's latency"))
		faster := func(bytes float64) float64 {
			_, end := Shares(rates, latencies, bytes)
			return latency + bytes/rate/1e3 - end
		}
		bound := ArrayBound(rate, latency, rates, latencies)
		if math.IsInf(bound, 1) {
			kinds["never"]++
			if faster(1e12) > 1e-3 {
				t.Fatalf("the trees win by %v us at 1e12 bytes", faster(1e12))
			}
			return
		}
		for _, f := range []float64{1.001, 1.1, 2, 10, 1e3, 1e6} {
			if bytes := bound*f + 1; faster(bytes) < -1e-6 {
				t.Fatalf("the trees lose by %v us at %v bytes, above %v", -faster(bytes), bytes, bound)
			}
		}
		if bound == 0 {
			kinds["always"]++
			return
		}
		kinds["between"]++
		if faster(bound) > 1e-6 {
			t.Fatalf("the trees win by %v us at the bound of %v bytes", faster(bound), bound)
		}
	})
	if len(kinds) != 3 {
		t.Errorf("the sample shows only %v", kinds)
	}
}
