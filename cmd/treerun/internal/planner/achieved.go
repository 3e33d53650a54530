package planner

import (
	"fmt"
	"math"
)

// lowPrediction is the part of the rate below which a prediction is explained.
const lowPrediction = 0.9

// achieved says how near to the bound the plan comes: what runs for this
// message, and all strands together, where those are more.
func (d *design) achieved(r *request, c certificate) []string {
	percent := func(rate float64) float64 { return math.Floor(1000*rate/c.rate+1e-6) / 10 }
	rate := d.rate()
	list := []string{fmt.Sprintf("rate %.4g GB/s: %.4g %% of the bound, %.4g GB/s", rate, percent(rate), c.rate)}
	if d.treesUsed() < len(d.strands) {
		all := fmt.Sprintf("rate of all %d together: %.4g GB/s, %.4g %% of the bound", len(d.strands), rate, percent(rate))
		rate = 1 / r.meter.fullest(d.strands, d.shares, r.kind, r.planRoot())
		list = []string{fmt.Sprintf("rate of the %d used for this message: %.4g GB/s, %.4g %% of the bound, %.4g GB/s", d.treesUsed(), rate, percent(rate), c.rate), all}
	}
	if got := algGBs(d.bytes, d.predictedUs); got < lowPrediction*rate {
		list = append(list, fmt.Sprintf("predicted is %.3g %% of that rate, which full links would have: latencies, steps and chunks that wait for each other take the rest", 100*got/rate))
	}
	return list
}
