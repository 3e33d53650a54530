package pack

import (
	"cmp"
	"math"
	"slices"
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
	order := byLatency(latenciesUs)
	rate, begun := 0.0, 0.0 // of the trees in use, and what they would not have done by time 0
	for i, k := range order {
		rate += rates[k]
		begun += rates[k] * latenciesUs[k]
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

// byLatency returns the trees in the order in which a growing message takes
// them in.
func byLatency(latencies []float64) []int {
	order := make([]int, len(latencies))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(latencies[i], latencies[j]) })
	return order
}

// Crossover is a size from which a message does better with one tree more.
type Crossover struct {
	Tree  int     // the tree that joins
	Bytes float64 // the message is larger than this
}

// Crossovers returns for every tree the size above which Shares gives it a
// part, smallest first; the first is the tree that carries a message of any
// size. A tree pays when those before it would still be at work at its latency:
// with two trees, above b_1*(L_2 - L_1) bytes.
func Crossovers(rates, latenciesUs []float64) []Crossover {
	list := make([]Crossover, 0, len(rates))
	rate, begun := 0.0, 0.0
	for _, k := range byLatency(latenciesUs) {
		list = append(list, Crossover{Tree: k, Bytes: max(0, rate*latenciesUs[k]-begun) * bytesPerUs})
		rate += rates[k]
		begun += rates[k] * latenciesUs[k]
	}
	return list
}

// ArrayBound returns the size in bytes above which several trees together,
// with the shares of Shares, are faster than one tree that has the links for
// itself, with its own rate and latency. It is +Inf when that tree stays
// faster, and 0 when it never is.
//
// MXNet has a fixed bound in its place: 10,000,000 elements
// (MXNET_KVSTORE_TREE_ARRAY_BOUND).
func ArrayBound(rate, latencyUs float64, rates, latenciesUs []float64) float64 {
	// With more bytes the trees together need ever less time per byte more, so
	// the gain of them is convex: once it is above zero and rising it stays so.
	// Between two crossovers it is a straight line. At the crossover of a tree
	// the others end just when its latency has passed.
	var sizes, gains []float64
	for _, c := range Crossovers(rates, latenciesUs) {
		if len(sizes) == 0 || c.Bytes > sizes[len(sizes)-1] {
			sizes = append(sizes, c.Bytes)
			gains = append(gains, latencyUs+c.Bytes/rate/bytesPerUs-latenciesUs[c.Tree])
		}
	}
	end := len(sizes)
	slope := 0.0 // above the last crossover, in us per byte
	if sum := total(rates); math.Abs(sum-rate) > closed*rate {
		slope = (1/rate - 1/sum) / bytesPerUs
	}
	if slope < 0 || slope == 0 && gains[end-1] <= 0 {
		return math.Inf(1)
	}
	// The last size at which together is not faster, looked for from above.
	if gains[end-1] <= 0 {
		return sizes[end-1] + -gains[end-1]/slope
	}
	for i := end - 1; i > 0; i-- {
		if low, high := gains[i-1], gains[i]; low <= 0 {
			return sizes[i-1] + (sizes[i]-sizes[i-1])*(-low/(high-low))
		}
	}
	return 0
}

func total(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum
}
