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

// The shares sum to the message, trees that have one end together, and those that have none could not even begin by
// then. The time is the one found by halving.
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

// timeByHalving looks for the time in which the trees move the given number of bytes.
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
