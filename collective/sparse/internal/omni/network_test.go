package omni

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
)

// faults are what a network does to packets. Chances are of 1.
type faults struct {
	loss, double float64
	ghost        float64 // comes a second time, very late: some rounds, or in another tensor
	jitter       int64   // ns beyond the least delay, at random: packets overtake each other
}

const (
	delay   = 1000 // ns, the least
	timeout = 20_000
	late    = 400_000 // ns, how late a ghost may be
)

// flight is a packet on its way.
type flight struct {
	at     int64
	number int // of packets that arrive at once, the first sent is first
	worker int // who gets it; -1: the aggregator
	agg    int
	packet []byte
}

type flights []flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].number < f[j].number
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(flight)) }
func (f *flights) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// network runs tensors one after the other over links with faults, in virtual
// time. Every worker and aggregator goes on to the next tensor as soon as it may,
// so that they are in different ones.
type network struct {
	*cluster
	t       *testing.T
	r       *rand.Rand
	faults  faults
	tensors []*tensors
	now     int64
	sent    int // packets, faults and repetitions included
	repeats int
	flights flights
	timers  []*Timers
	done    []int // by worker: tensors
	results [][][]byte
}

func newNetwork(t *testing.T, r *rand.Rand, f faults, all []*tensors) *network {
	first := all[0].shape
	n := &network{cluster: newCluster(first.Workers, first.Aggregators), t: t, r: r, faults: f, tensors: all,
		done: make([]int, first.Workers)}
	for range first.Workers {
		n.timers = append(n.timers, NewTimers(64, timeout))
	}
	n.results = make([][][]byte, len(all))
	for i, x := range all {
		x.shape.Lossy = true
		_, n.results[i] = x.Buffers(false)
	}
	return n
}

// send puts a packet on its way, or does what the faults say.
func (n *network) send(f flight) {
	n.sent++
	f.packet = bytes.Clone(f.packet)
	put := func(after int64) {
		f.at, f.number = n.now+delay+after, n.sent
		heap.Push(&n.flights, f)
	}
	if n.r.Float64() >= n.faults.loss {
		put(n.r.Int64N(n.faults.jitter + 1))
	}
	if n.r.Float64() < n.faults.double {
		put(n.r.Int64N(n.faults.jitter + 1))
	}
	if n.r.Float64() < n.faults.ghost {
		put(n.r.Int64N(late))
	}
}

// say has a worker send the packet of a stream's present round.
func (n *network) say(w, stream int) {
	s := &n.tensors[n.done[w]].shape
	p := make([]byte, s.MaxPacket())
	n.send(flight{worker: -1, agg: stream % s.Aggregators, packet: p[:n.workers[w].Compose(stream, p)]})
}

func (n *network) beginWorker(w int) {
	for n.done[w] < len(n.tensors) {
		i := n.done[w]
		x := n.tensors[i]
		err := n.workers[w].Begin(uint32(i), x.shape,
			Input{Blocks: x.Sets[w], Send: x.Send[w], Recv: n.results[i][w], Fill: true})
		if err != nil {
			n.t.Fatal(err)
		}
		if n.workers[w].Done() { // a tensor without elements
			n.done[w]++
			continue
		}
		for stream := range x.shape.Live() {
			n.say(w, stream)
			n.timers[w].Sent(stream, n.now, 4)
		}
		return
	}
}

// beginAggregator lets an aggregator go on that has done its part of a tensor.
func (n *network) beginAggregator(a int) {
	agg := n.aggregators[a]
	for agg.Done() && (!agg.begun || int(agg.tensor) < len(n.tensors)-1) {
		next := uint32(0)
		if agg.begun {
			next = agg.tensor + 1
		}
		if err := agg.Begin(next, n.tensors[next].shape); err != nil {
			n.t.Fatal(err)
		}
	}
}

// arrive hands a packet over.
func (n *network) arrive(f flight) {
	if f.worker < 0 {
		answer, err := n.aggregators[f.agg].Handle(f.packet)
		if err != nil {
			n.t.Fatal(err)
		}
		if answer.Packet == nil {
			return
		}
		for w := range n.workers {
			if answer.To < 0 || answer.To == w {
				n.send(flight{worker: w, agg: f.agg, packet: answer.Packet})
			}
		}
		n.beginAggregator(f.agg)
		return
	}
	w := f.worker
	step, err := n.workers[w].Handle(f.packet)
	switch {
	case err != nil:
		n.t.Fatal(err)
	case step.Stale:
	case step.Send:
		n.say(w, step.Stream)
		n.timers[w].Sent(step.Stream, n.now, 1)
	case step.Ended:
		n.timers[w].Ended(step.Stream)
		if n.workers[w].Done() {
			n.done[w]++
			n.beginWorker(w)
		}
	}
}

// finished reports whether all workers have all results.
func (n *network) finished() bool {
	for _, d := range n.done {
		if d < len(n.tensors) {
			return false
		}
	}
	return true
}

func (n *network) run() {
	for a := range n.aggregators {
		n.beginAggregator(a)
	}
	for w := range n.workers {
		n.beginWorker(w)
	}
	for steps := 0; !n.finished(); steps++ {
		if steps > 2_000_000 {
			n.t.Fatal("no end")
		}
		at, expires := int64(0), -1
		for w, timers := range n.timers {
			if next, ok := timers.Next(); ok && n.done[w] < len(n.tensors) && (expires < 0 || next < at) {
				at, expires = next, w
			}
		}
		switch {
		case len(n.flights) > 0 && (expires < 0 || n.flights[0].at <= at):
			f := heap.Pop(&n.flights).(flight)
			n.now = f.at
			n.arrive(f)
		case expires >= 0:
			n.now = at
			for s := n.timers[expires].Expired(n.now); s >= 0; s = n.timers[expires].Expired(n.now) {
				n.repeats++
				n.say(expires, s)
			}
		default:
			n.t.Fatal("nothing is under way, and nobody waits")
		}
	}
	for i, x := range n.tensors {
		want := x.Want()
		for w := range n.workers {
			if d := x.Differ(w, n.results[i][w], want); d != "" {
				n.t.Fatalf("tensor %d: %s", i, d)
			}
		}
	}
}

// several returns tensors of different lengths, types and shapes.
func several(r *rand.Rand, workers, aggregators, count int) []*tensors {
	var all []*tensors
	for range count {
		x := shaped(random(workers, r), aggregators, aggregators+r.IntN(5), 1+r.IntN(3))
		x.shape.Lists = r.IntN(2) == 0
		x.shape.Compact = r.IntN(2) == 0
		all = append(all, x)
	}
	return all
}

// Without faults Algorithm 2 sends a packet per worker and round, and no more.
func TestLossyWithoutFaults(t *testing.T) {
	for seed := range uint64(50) {
		r := seeded(seed)
		workers := 1 + r.IntN(4)
		all := several(r, workers, 1+r.IntN(2), 1)
		n := newNetwork(t, r, faults{}, all)
		n.run()
		_, rounds := all[0].messages()
		if want := 2 * workers * rounds; n.sent != want || n.repeats != 0 {
			t.Errorf("seed %d: %d packets, %d repeated, in %d rounds of %d workers, want %d", seed, n.sent, n.repeats, rounds,
				workers, want)
		}
	}
}

func TestLossyUnderFaults(t *testing.T) {
	for _, f := range []faults{
		{loss: 0.01}, {loss: 0.1}, {loss: 0.3},
		{double: 0.3}, {jitter: 5 * delay}, {ghost: 0.3, jitter: delay},
		{loss: 0.05, double: 0.05, ghost: 0.1, jitter: 10 * delay},
		{loss: 0.3, double: 0.3, ghost: 0.3, jitter: 3 * timeout},
	} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			repeats := 0
			for seed := range uint64(25) {
				r := seeded(seed)
				n := newNetwork(t, r, f, several(r, 1+r.IntN(4), 1+r.IntN(2), 4))
				n.run()
				repeats += n.repeats
			}
			if (f.loss > 0) != (repeats > 0) && f.jitter < timeout {
				t.Errorf("%d packets were repeated", repeats)
			}
		})
	}
}
