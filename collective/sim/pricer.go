package sim

import (
	"errors"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Pricer prices many plans on one graph and machine. It is not for several goroutines at a
// time.
type Pricer struct {
	g    *topo.Graph
	m    Machine
	net  *network // of the latest runner: its routes hold for the next one
	runs map[run]took

	// Stop, unless nil, is called before each run. If it returns true the pricing ends with ErrStopped.
	Stop func() bool
}

// ErrStopped is the error of a pricing that Stop has ended.
var ErrStopped = errors.New("the search for a plan was stopped")

// run is several calls at once of a plan, with messages of the given number of bytes each.
type run struct {
	plan   *plan.Plan
	bytes  int64
	calls  int
	chunks plan.Chunks
}

// took is the time of a run, in microseconds, and a lower bound of it.
type took struct{ us, least float64 }

const maxRuns = 1 << 12

// NewPricer returns a Pricer for a valid graph with its ways.
func NewPricer(g *topo.Graph, ways *topo.Ways, m Machine) *Pricer {
	return &Pricer{g: g, m: m, net: newNetwork(g, ways, &m), runs: make(map[run]took)}
}

// machine returns the Machine that cuts messages into the chunks c.
func (x *Pricer) machine(c plan.Chunks) *Machine {
	m := x.m
	if c.Max > 0 {
		m.SlotBytes = min(m.SlotBytes, c.Max)
	}
	m.MinChunk = max(c.Min, m.MinChunk)
	return &m
}

// laidOut returns the runner of a run. The one before must not be used any more.
func (x *Pricer) laidOut(k run) (*runner, error) {
	ops := slices.Repeat([]Operation{{Plan: k.plan, Bytes: k.bytes}}, k.calls)
	x.net.clear(x.machine(k.chunks))
	return newRunner(ops, x.net)
}

// Limits bound the work of finding a price.
type Limits struct {
	Steps  float64 // up to this number a call is run to its end
	Chunks float64 // of the widest lane, at least, in the longer of the runs that stand for a longer call
	Us     float64 // a price above may come out as +Inf; 0: none may
}

// maxSteps is about how many steps the longer of two runs may have that stand for a longer
// call, after they were doubled because the plan did not fill in them.
const maxSteps = 1 << 17

// Us returns the time of calls of a plan at once, cut into chunks, in microseconds. Up to most.Steps steps it is the
// time of a run. With more, the chunks of the widest lane follow each other at a distance that becomes even: every
// chunk more adds the same time, and so the time of the message lies on the line through those of two messages that are
// shorter by whole chunks. While a deep plan fills, a chunk more costs less than the work of links, ports, tracks and
// cores for it: then both are doubled, up to maxSteps, and the line rises at least as fast as that. The Machine must
// have SlotBytes.
//
// Where ranks take turns on cores no price is below that of a half, a quarter and so on of the message. The arrival
// time of a chunk determines the time until its rank's turn: the one chunk of a small message may come at the worst
// time at every rank, and those of a larger one not.
func (x *Pricer) Us(p *plan.Plan, bytes int64, calls int, c plan.Chunks, most Limits) (float64, error) {
	whole := run{p, bytes, calls, c}
	perChunk, widest := Weigh(p)
	perChunk *= float64(calls)
	chunk := float64(x.machine(c).SlotBytes) / widest // bytes of the message to one chunk of the widest lane
	half := max(math.Floor(most.Chunks/2), math.Floor(most.Steps/perChunk/2), 1)
	for ; math.Ceil(float64(bytes)/chunk) >= 3*half; half *= 2 {
		var us, least, at [2]float64 // of two shorter messages
		for i := range us {
			shorter := run{p, int64(float64(i+1) * half * chunk), calls, c}
			at[i] = float64(shorter.bytes)
			var err error
			us[i], least[i], err = x.ran(shorter, most.Us)
			if err != nil || math.IsInf(us[i], 1) { // longer messages take longer, too
				return us[i], err
			}
		}
		if us[1]-us[0] < (least[1]-least[0])*(1-1e-9) && 4*half*perChunk <= maxSteps {
			continue
		}
		r, err := x.laidOut(whole)
		if err != nil {
			return 0, err
		}
		_, all := r.least()
		perByte := max((us[1]-us[0])/(at[1]-at[0]), all/float64(bytes))
		return x.rising(whole, chunk, 3*half, us[1]+float64((float64(bytes)-at[1])*perByte), most.Us)
	}
	us, _, err := x.ran(whole, most.Us)
	if err != nil || math.IsInf(us, 1) {
		return us, err
	}
	return x.rising(whole, chunk, 3*half, us, most.Us)
}

// maxTurns is the number of steps of all ranks with a chunk above which the chunks of a plan come at all times of a
// rank's turns, as it has many lanes: none of its messages takes longer than a larger one.
const maxTurns = 1 << 13

// rising returns the largest of us and, where ranks take turns on cores, the times of a half, a quarter and so on of
// the calls: from less than chunks chunks down to less than one.
func (x *Pricer) rising(k run, chunk, chunks, us, limit float64) (float64, error) {
	if steps, _ := Weigh(k.plan); steps > maxTurns || !x.takeTurns() {
		return us, nil
	}
	for float64(k.bytes) >= chunk && k.bytes > 1 {
		k.bytes /= 2
		if math.Ceil(float64(k.bytes)/chunk) >= chunks {
			continue
		}
		v, _, err := x.ran(k, limit)
		if err != nil {
			return 0, err
		}
		us = max(us, v)
	}
	return us, nil
}

// takeTurns reports whether several ranks of some host share a core.
func (x *Pricer) takeTurns() bool {
	if x.m.Cores == 0 || x.m.SwitchUs == 0 {
		return false
	}
	return slices.ContainsFunc(coreHosts(x.g, &x.m), func(ranks []int) bool { return len(ranks) > x.m.Cores })
}

// ran returns the time of calls, +Inf where that is above a limit, 0 for none, and a lower bound of it: see least. It
// remembers both, as messages of several sizes are priced by the same shorter ones.
func (x *Pricer) ran(k run, limit float64) (us, least float64, err error) {
	known, has := x.runs[k]
	if !has {
		if x.Stop != nil && x.Stop() {
			return 0, 0, ErrStopped
		}
		r, err := x.laidOut(k)
		if err != nil {
			return 0, 0, err
		}
		r.limit = limit
		_, known.least = r.least()
		switch err = r.run(); {
		case errors.Is(err, errLonger):
			known.us = math.Inf(1)
		case err != nil:
			return 0, 0, err
		default:
			known.us = r.end
		}
		if len(x.runs) >= maxRuns {
			clear(x.runs)
		}
		if !math.IsInf(known.us, 1) {
			x.runs[k] = known
		}
	}
	if limit > 0 && known.us > limit {
		known.us = math.Inf(1)
	}
	return known.us, known.least, nil
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

// sharesOf returns the part of the message that every lane of p has. Those of an AllToAll move a part with every step.
func sharesOf(p *plan.Plan) []float64 {
	sums := make(map[int]float64) // of weights, by part
	for _, l := range p.Lanes {
		sums[l.Part] += l.Weight
	}
	parts := 1
	if p.Kind.HasParts() {
		parts = p.Size
	}
	var shares []float64
	for _, l := range p.Lanes {
		shares = append(shares, l.Weight/sums[l.Part]/float64(parts))
	}
	return shares
}

// FullRate returns the rate in GB/s of message at which p fills the link or port that it
// uses most: no plan with its steps and shares is faster.
func (x *Pricer) FullRate(p *plan.Plan) (float64, error) {
	w := newNetwork(x.g, x.net.ways, &Machine{})
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
				for i, via := range w.all[route].via {
					r := &w.resources[via]
					r.busy += float64(share * w.all[route].load(i) * r.perByte)
					most = max(most, r.busy)
				}
			}
		}
	}
	return 1e-3 / most, nil
}

// LeastUs returns two lower bounds of the price of a call of p with a message of the given number of bytes: the time
// for which it holds the link or port that it uses most, and the longest of that and of the times of the steps of one
// track, rank and host. It does not run the plan.
func (x *Pricer) LeastUs(p *plan.Plan, bytes int64, c plan.Chunks) (fullest, least float64, err error) {
	r, err := x.laidOut(run{p, bytes, 1, c})
	if err != nil {
		return 0, 0, err
	}
	fullest, least = r.least()
	return fullest, least, nil
}

// least returns two lower bounds of the time of all operations together: see LeastUs.
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
				route := &r.all[op.fifos[st.out].route]
				for i, via := range route.via {
					link := &r.resources[via]
					share := int64(t.chunks-1)*t.chunk + t.last
					link.busy += float64(float64(share) * route.load(i) * link.perByte)
					fullest = max(fullest, link.busy)
				}
			}
			least = max(least, us, float64(t.chunks-1)*t.enqueueUs)
			ranks[t.rank] += us
			hosts[r.hostOf[t.rank]] += us
		}
	}
	if r.m.Cores > 0 {
		least = max(least, slices.Max(ranks))
		for _, us := range hosts {
			least = max(least, us/float64(r.m.Cores))
		}
	}
	return fullest, max(fullest, least+r.m.LaunchUs)
}

// stepUs returns a lower bound of the time of a track's step with a chunk.
func (r *runner) stepUs(pr *program, st *step, bytes int64) float64 {
	if st.again {
		return 0
	}
	us, work := r.ownUs(st, bytes), r.workUs(st, bytes)
	if r.inline(st) { // until the bytes are there
		route := &r.all[pr.fifos[st.out].route]
		for i, via := range route.via {
			work = max(work, float64(float64(bytes)*route.load(i)*r.resources[via].perByte))
		}
	}
	return us + work
}
