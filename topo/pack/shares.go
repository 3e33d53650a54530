package pack

import (
	"cmp"

	"github.com/treerun/treerun/internal/numbers"
)

// Shares divides a message of so many bytes among trees that work at the same
// time, each with a rate in GB/s and a latency in microseconds, so that they
// end together and as soon as possible: tree i gets b_i*(T - L_i) bytes, or
// nothing when its latency alone is T or more, where T is the least time in
// which all is done (water filling). It returns the shares in bytes, which sum
// to bytes, and T in microseconds.
//
// Rates must be above zero and latencies not below it; there must be a tree.
func Shares(rates, latenciesUs []float64, bytes float64) (shares []float64, timeUs float64) {
	// The order in which a growing message takes the trees in.
	order := numbers.Order(len(rates), func(i, j int) int { return cmp.Compare(latenciesUs[i], latenciesUs[j]) })
	rate, begun := 0.0, 0.0 // of the trees in use, and what they would not have done by time 0
	for i, k := range order {
		rate += rates[k]
		begun += float64(rates[k] * latenciesUs[k])
		timeUs = (bytes/bytesPerUs + begun) / rate
		if i+1 == len(order) || timeUs <= latenciesUs[order[i+1]] {
			break
		}
	}
	shares = make([]float64, len(rates))
	for k, b := range rates {
		shares[k] = b * max(0, timeUs-latenciesUs[k]) * bytesPerUs
	}
	return shares, timeUs
}

// bytesPerUs is 1 GB/s in bytes per microsecond.
const bytesPerUs = 1e3
