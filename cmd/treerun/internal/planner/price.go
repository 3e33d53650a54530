package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/sim"
)

// machine has the constants with which plans are priced: the rates and the
// latencies of the graph, chunks of up to slotBytes in 8 slots per link, as NCCL
// has them, and the time that treerun's executor needs for a step without its
// bytes. Reducing and copying cost nothing beside the links.
func machine(slotBytes int) sim.Machine {
	return sim.Machine{Name: "treerun plan", Slots: 8, SlotBytes: slotBytes, MinChunk: 8 << 10, StepUs: 0.15}
}

// chunkSizes are the slots that every plan is priced with; the best counts.
// Small chunks fill a deep tree sooner, large ones hide the latency of links.
var chunkSizes = [...]int{512 << 10, 128 << 10, 32 << 10}

// mostSteps is the number of steps up to which a plan is simulated step by step
// to its end, a tenth of a second. Above, two shorter messages are, and their
// line is drawn on.
const mostSteps = 1_000_000

// price says what n calls of the plan at once cost, in microseconds.
func (d *design) price(r *request, n int) (float64, error) {
	ops := make([]sim.Operation, n)
	for i := range ops {
		ops[i] = sim.Operation{Plan: d.plan, Bytes: d.bytes}
	}
	x, err := r.prices()
	if err != nil {
		return 0, err
	}
	_, widest := sim.Weigh(d.plan)
	share := float64(d.bytes) * widest
	least := math.Inf(1)
	for i, slot := range chunkSizes {
		if i+1 < len(chunkSizes) && share <= 4*float64(chunkSizes[i+1]) {
			continue // a share is cut into four chunks at least: the next slot makes the same ones
		}
		us, err := x.Us(ops, machine(slot), sim.Limits{Steps: mostSteps, Chunks: 128})
		if err != nil {
			return 0, fmt.Errorf("price of %s on %s: %w", d.algorithm, title(r.g), err)
		}
		if us > least {
			break // chunks that are too small already do not become better by being smaller
		}
		least = us
	}
	return least, nil
}

// prices returns what prices plans on the request's graph.
func (r *request) prices() (x *sim.Pricer, err error) {
	if r.pricer == nil {
		r.pricer, err = sim.NewPricer(r.g)
	}
	return r.pricer, err
}
