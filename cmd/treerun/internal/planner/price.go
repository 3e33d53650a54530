package planner

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/sim"
	"github.com/treerun/treerun/topo"
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
	_, widest := weigh(d.plan)
	share := float64(d.bytes) * widest
	least := math.Inf(1)
	for i, slot := range chunkSizes {
		if i+1 < len(chunkSizes) && share <= 4*float64(chunkSizes[i+1]) {
			continue // a share is cut into four chunks at least: the next slot makes the same ones
		}
		us, err := priced(ops, r.g, machine(slot), mostSteps)
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

// priced says what calls of one plan at once cost, in microseconds. Up to most
// steps that is what sim.Run says. With more, the chunks of the widest lane
// follow each other at a distance that has long become even: every chunk more
// adds the same time, and so the time of the message lies on the line through
// those of two messages that are shorter by whole chunks.
func priced(ops []sim.Operation, g *topo.Graph, m sim.Machine, most float64) (float64, error) {
	bytes := ops[0].Bytes
	perChunk, widest := weigh(ops[0].Plan)
	chunks := math.Ceil(float64(bytes) * widest / float64(m.SlotBytes)) // of the widest lane
	perChunk *= float64(len(ops))
	half := max(fewestChunks/2, math.Floor(most/perChunk/2))
	if chunks*perChunk <= most || chunks < 3*half {
		res, err := sim.Run(ops, g, m)
		return res.Us, err
	}
	var at, us [2]float64
	for i := range at {
		shorter := make([]sim.Operation, len(ops))
		for k, op := range ops {
			op.Bytes = int64(half * float64(i+1) * float64(m.SlotBytes) / widest)
			shorter[k] = op
		}
		res, err := sim.Run(shorter, g, m)
		if err != nil {
			return 0, err
		}
		at[i], us[i] = float64(shorter[0].Bytes), res.Us
	}
	return us[1] + (float64(bytes)-at[1])*(us[1]-us[0])/(at[1]-at[0]), nil
}

// fewestChunks of the widest lane make up the longer of the two messages.
const fewestChunks = 128

// weigh returns the steps that all ranks take while the widest lane moves one
// chunk, and the part of the message that this lane has.
func weigh(p *plan.Plan) (steps, widest float64) {
	sums := make(map[int]float64) // of weights, by part
	for _, l := range p.Lanes {
		sums[l.Part] += l.Weight
	}
	share := func(l *plan.Lane) float64 { return l.Weight / sums[l.Part] / float64(len(sums)) }
	for i := range p.Lanes {
		widest = max(widest, share(&p.Lanes[i]))
	}
	for i := range p.Lanes {
		l := &p.Lanes[i]
		count := 0
		for _, t := range l.Tracks {
			count += len(t.Steps)
		}
		steps += float64(count) * share(l) / widest
	}
	return steps, widest
}
