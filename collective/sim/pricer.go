package sim

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Operation is one call of a collective. Bytes is its whole message: all parts
// where the kind has parts. No rank issues it before AtUs.
type Operation struct {
	Plan  *plan.Plan
	Bytes int64
	AtUs  float64
}

// Pricer prices many plans on one graph. What follows from the graph and from
// the plans alone it works out once. It is not for several goroutines at a time.
type Pricer struct {
	g     *topo.Graph
	ways  *topo.Ways
	known map[*plan.Plan]bool // to be valid

	runs map[run]took
	on   Machine // of runs, the size of its chunks apart
}

// run is several of one call at once, cut into chunks of one size.
type run struct {
	call                Operation
	calls               int
	slotBytes, minChunk int
}

// took is what a run takes, in microseconds, and what it takes at least.
type took struct{ us, least float64 }

const (
	maxKnown = 256
	maxRuns  = 1 << 12
)

// NewPricer returns a Pricer for g, which must not change. The error is for a
// graph that is not valid.
func NewPricer(g *topo.Graph) (*Pricer, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return &Pricer{g: g, ways: topo.NewWays(g), known: make(map[*plan.Plan]bool), runs: make(map[run]took)}, nil
}

// Ways returns the ways between the ranks of the Pricer's graph.
func (x *Pricer) Ways() *topo.Ways { return x.ways }

// laidOut returns what runs calls, up to a time unless that is 0.
func (x *Pricer) laidOut(ops []Operation, m Machine, limit float64) (*runner, error) {
	if err := x.check(ops, &m); err != nil {
		return nil, err
	}
	r, err := newRunner(ops, newNetwork(x.g, x.ways, &m))
	if err == nil {
		r.limit = limit
	}
	return r, err
}

func (x *Pricer) check(ops []Operation, m *Machine) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if len(ops) == 0 {
		return fmt.Errorf("sim: no operations")
	}
	if m.CoreHosts != nil && len(m.CoreHosts) != x.g.Ranks {
		return fmt.Errorf("sim: machine %s: CoreHosts of %d ranks for a graph of %d", m.Name, len(m.CoreHosts), x.g.Ranks)
	}
	for i, op := range ops {
		if op.Plan.Size != x.g.Ranks {
			return fmt.Errorf("sim: plan %s of %d ranks on a graph of %d", op.Plan.Name, op.Plan.Size, x.g.Ranks)
		}
		if op.Bytes < 0 {
			return fmt.Errorf("sim: operation %d with %d bytes, want at least 0", i, op.Bytes)
		}
		if !(op.AtUs >= 0) || math.IsInf(op.AtUs, 0) {
			return fmt.Errorf("sim: operation %d is issued at %v us, want a number >= 0", i, op.AtUs)
		}
		if x.known[op.Plan] {
			continue
		}
		if err := op.Plan.Validate(); err != nil {
			return err
		}
		if len(x.known) == maxKnown {
			clear(x.known) // and let go of the plans
		}
		x.known[op.Plan] = true
	}
	return nil
}

// Limits bound what finding a price may cost.
type Limits struct {
	Steps  float64 // up to so many a call is run to its end
	Chunks float64 // of the widest lane, at least, in the longer of the runs that stand for a longer call
	Us     float64 // a price above may come out as +Inf; 0: none may
}

// maxSteps is about how many steps the longer of two runs may have that stand for a longer
// call, after they were doubled because the plan did not fill in them.
const maxSteps = 1 << 17

// Us says what calls at once cost that are all like the first, in microseconds. Up to most steps
// that is what Run says. With more, the chunks of the widest lane follow each
// other at a distance that becomes even: every chunk more adds the same
// time, and so the time of the message lies on the line through those of two
// messages that are shorter by whole chunks. While a deep plan fills, a chunk more costs
// less than the links, ports, tracks and cores must do for it: then both are doubled, up to
// maxSteps, and the line rises at least as fast as that. m must have SlotBytes.
//
// Where ranks take turns on cores no price is below that of a half, a quarter and so on of the
// message. When a chunk arrives decides how far its rank's turn is away just then: the one chunk
// of a small message may come at the worst time at every rank, and those of a larger one not.
func (x *Pricer) Us(ops []Operation, m Machine, most Limits) (float64, error) {
	perChunk, widest := Weigh(ops[0].Plan)
	perChunk *= float64(len(ops))
	chunk := float64(m.SlotBytes) / widest // bytes of the message to one chunk of the widest lane
	half := max(math.Floor(most.Chunks/2), math.Floor(most.Steps/perChunk/2), 1)
	for bytes := float64(ops[0].Bytes); math.Ceil(bytes/chunk) >= 3*half; half *= 2 {
		var us, least, at [2]float64 // of two shorter messages
		for i := range us {
			shorter := resized(ops, int64(float64(i+1)*half*chunk))
			at[i] = float64(shorter[0].Bytes)
			var err error
			us[i], least[i], err = x.ran(shorter, m, most.Us)
			if err != nil || math.IsInf(us[i], 1) { // what takes longer does so, too
				return us[i], err
			}
		}
		if us[1]-us[0] < (least[1]-least[0])*(1-1e-9) && 4*half*perChunk <= maxSteps {
			continue
		}
		r, err := x.laidOut(ops, m, 0)
		if err != nil {
			return 0, err
		}
		_, whole := r.least()
		perByte := max((us[1]-us[0])/(at[1]-at[0]), whole/bytes)
		return x.rising(ops, m, chunk, 3*half, us[1]+float64((bytes-at[1])*perByte), most.Us)
	}
	us, _, err := x.ran(ops, m, most.Us)
	if err != nil || math.IsInf(us, 1) {
		return us, err
	}
	return x.rising(ops, m, chunk, 3*half, us, most.Us)
}

// rising returns the largest of us and, where ranks take turns on cores, what a half, a quarter
// and so on of the calls take: from less than so many chunks down to less than one.
func (x *Pricer) rising(ops []Operation, m Machine, chunk, chunks, us, limit float64) (float64, error) {
	if !x.takeTurns(&m) {
		return us, nil
	}
	for bytes := ops[0].Bytes; float64(bytes) >= chunk && bytes > 1; {
		bytes /= 2
		if math.Ceil(float64(bytes)/chunk) >= chunks {
			continue
		}
		v, _, err := x.ran(resized(ops, bytes), m, limit)
		if err != nil {
			return 0, err
		}
		us = max(us, v)
	}
	return us, nil
}

// takeTurns reports whether several ranks of some host share a core of m.
func (x *Pricer) takeTurns(m *Machine) bool {
	if m.Cores == 0 || m.SwitchUs == 0 {
		return false
	}
	hostOf, hosts := coreHosts(x.g, m)
	ranks := make([]int, hosts)
	for _, h := range hostOf {
		ranks[h]++
	}
	return slices.Max(ranks) > m.Cores
}

// ran returns what calls take, +Inf where that is above a limit, 0 for none, and what they
// take at least: see least. It remembers both, as messages of several sizes are priced by the
// same shorter ones.
func (x *Pricer) ran(ops []Operation, m Machine, limit float64) (us, least float64, err error) {
	key := run{ops[0], len(ops), m.SlotBytes, m.MinChunk}
	on := m
	on.SlotBytes, on.MinChunk = 0, 0
	if len(x.runs) >= maxRuns || !reflect.DeepEqual(on, x.on) {
		x.runs, x.on = make(map[run]took), on
	}
	known, has := x.runs[key]
	if !has {
		r, err := x.laidOut(ops, m, limit)
		if err != nil {
			return 0, 0, err
		}
		_, known.least = r.least()
		if known.us, err = r.until(); err != nil {
			return 0, 0, err
		}
		if !math.IsInf(known.us, 1) {
			x.runs[key] = known
		}
	}
	if limit > 0 && known.us > limit {
		known.us = math.Inf(1)
	}
	return known.us, known.least, nil
}

// resized returns calls like ops with messages of so many bytes each.
func resized(ops []Operation, bytes int64) []Operation {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Bytes = bytes
	}
	return ops
}

// until runs everything, and returns when it ends, or +Inf where that is above the limit.
func (r *runner) until() (us float64, err error) {
	switch err := r.run(); err {
	case nil:
		return r.end, nil
	case errLonger:
		return math.Inf(1), nil
	default:
		return 0, err
	}
}

// Weigh returns the steps that all ranks take while the widest lane of p moves
// one chunk, and the part of the message that this lane has.
func Weigh(p *plan.Plan) (steps, widest float64) {
	shares := sharesOf(p)
	widest = slices.Max(shares)
	for i := range p.Lanes { // which have as many chunks each
		for _, t := range p.Lanes[i].Tracks {
			steps += float64(len(t.Steps))
		}
	}
	return steps, widest
}

// sharesOf returns the part of the message that every lane of p has.
func sharesOf(p *plan.Plan) []float64 {
	sums := make(map[int]float64) // of weights, by part
	for _, l := range p.Lanes {
		sums[l.Part] += l.Weight
	}
	var shares []float64
	for _, l := range p.Lanes {
		shares = append(shares, l.Weight/sums[l.Part]/float64(len(sums)))
	}
	return shares
}

// FullRate returns the rate in GB/s of message at which p fills the link or port that it
// uses most: no plan with its steps and shares is faster.
func (x *Pricer) FullRate(p *plan.Plan) (float64, error) {
	w := newNetwork(x.g, x.ways, &Machine{})
	most := 0.0
	for i, share := range sharesOf(p) {
		for _, t := range p.Lanes[i].Tracks {
			for _, s := range t.Steps {
				if !s.Op.Sends() {
					continue
				}
				route, err := w.route(t.Rank, int(s.To))
				if err != nil {
					return 0, err
				}
				for _, via := range w.all[route].via {
					r := &w.resources[via]
					r.busy += float64(share * r.perByte)
					most = max(most, r.busy)
				}
			}
		}
	}
	return 1e-3 / most, nil
}

// LeastUs returns two times that no price of a call of p with a message of so many bytes
// is below: for how long it holds the link, port or adapter that it uses most, and the
// longest of that and of what the steps of one track, rank and host take of it. It does
// not run the plan.
func (x *Pricer) LeastUs(p *plan.Plan, bytes int64, m Machine) (fullest, least float64, err error) {
	r, err := x.laidOut([]Operation{{Plan: p, Bytes: bytes}}, m, 0)
	if err != nil {
		return 0, 0, err
	}
	fullest, least = r.least()
	return fullest, least, nil
}

// least returns two times that all operations together take at least: see LeastUs.
func (r *runner) least() (fullest, least float64) {
	ranks, hosts := make([]float64, r.g.Ranks), make(map[int]float64)
	for _, op := range r.ops {
		for i := range op.tracks {
			t := &op.tracks[i]
			us := 0.0
			for k := range t.steps {
				st := &t.steps[k]
				us += float64(float64(t.chunks-1)*r.stepUs(op.program, st, t.chunk)) + r.stepUs(op.program, st, t.last)
				if st.out < 0 || st.again {
					continue
				}
				for _, via := range r.all[op.fifos[st.out].route].via {
					link := &r.resources[via]
					share := int64(t.chunks-1)*t.chunk + t.last
					link.busy += float64(float64(t.chunks)*link.fixed) + float64(float64(share)*link.perByte)
					fullest = max(fullest, link.busy)
				}
			}
			least = max(least, us)
			ranks[t.rank] += us
			hosts[r.hostOf[t.rank]] += us
		}
	}
	if r.m.Workers > 0 {
		least = max(least, slices.Max(ranks)/float64(r.m.Workers))
	}
	if r.m.Cores > 0 {
		for _, us := range hosts {
			least = max(least, us/float64(r.m.Cores))
		}
	}
	return fullest, max(fullest, least+r.m.LaunchUs)
}

// stepUs is what a step of a track takes at least with a chunk.
func (r *runner) stepUs(pr *program, st *step, bytes int64) float64 {
	if st.again {
		return 0
	}
	us, work := r.ownUs(st, bytes), r.workUs(st, bytes)
	if r.inline(st) { // until the bytes are there
		for _, via := range r.all[pr.fifos[st.out].route].via {
			link := &r.resources[via]
			work = max(work, link.fixed+float64(float64(bytes)*link.perByte))
		}
	}
	return us + work
}
