package merge_test

import (
	"bytes"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
)

// Machine describes the workers. Rates are in GB/s, times in microseconds.
type Machine struct {
	CardGBs   float64 // of every machine's network card, in each direction
	BusGBs    float64 // between a worker's card and its tensor, both directions together; 0: not limited
	LatencyUs float64 // of a packet between two machines
	BeginUs   float64 // before the first packet: the blocks are found, the call is launched
}

// Workload is one AllReduce: the blocks of the ranks.
type Workload struct {
	Sets       []block.Set // by rank
	Blocks     int
	BlockBytes int
}

// Ranks returns the number of ranks.
func (w *Workload) Ranks() int { return len(w.Sets) }

// LimitUs returns the time that no scheme can fall below, given the bytes that single ranks must send or receive, and
// the one for schemes without further machines.
func (w *Workload) LimitUs(cardGBs float64) (everyone, workersOnly float64) {
	l := LimitOf(block.Grid{Elements: w.Blocks, Size: 1, Width: 1}, w.Sets)
	us := float64(w.BlockBytes) / (cardGBs * 1e3)
	everyone = float64(l.Rank) * us
	return everyone, max(everyone, float64(l.Together)*us/float64(w.Ranks()))
}

// Result contains the results of a simulation.
type Result struct {
	Us       float64
	Sent     []float64 // bytes that left each rank's card, headers included
	Received []float64
}

// resource is a card or bus in one direction: first come, first served.
type resource struct {
	nsPerByte float64
	free      float64 // ns
}

// pass returns the time at which size bytes that arrive at now have passed.
func (r *resource) pass(now, size float64) float64 {
	if r.nsPerByte == 0 {
		return now
	}
	r.free = max(r.free, now) + size*r.nsPerByte
	return r.free
}

// machine is one machine's resources.
type machine struct{ bus, out, in resource }

func newMachines(m Machine, n int, bus bool) []machine {
	all := make([]machine, n)
	for i := range all {
		all[i].out.nsPerByte = 1 / m.CardGBs
		all[i].in.nsPerByte = 1 / m.CardGBs
		if bus && m.BusGBs > 0 {
			all[i].bus.nsPerByte = 1 / m.BusGBs
		}
	}
	return all
}

// event is an action at a time. Events of the same time run in the order in which they were made.
type event struct {
	at     float64 // ns
	number int
	do     func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.number < o.number }

// clock runs events in order of time.
type clock struct {
	now    float64 // ns
	number int
	heap   []event // each before those at 2i+1 and 2i+2
}

func (c *clock) at(t float64, do func()) {
	c.number++
	e, i := event{t, c.number, do}, len(c.heap)
	c.heap = append(c.heap, e)
	for ; i > 0 && e.before(c.heap[(i-1)/2]); i = (i - 1) / 2 {
		c.heap[i] = c.heap[(i-1)/2]
	}
	c.heap[i] = e
}

func (c *clock) run() {
	for len(c.heap) > 0 {
		first, n := c.heap[0], len(c.heap)-1
		e, i := c.heap[n], 0
		c.heap[n] = event{}
		c.heap = c.heap[:n]
		for n > 0 {
			child := 2*i + 1
			if child+1 < n && c.heap[child+1].before(c.heap[child]) {
				child++
			}
			if child >= n || !c.heap[child].before(e) {
				c.heap[i] = e
				break
			}
			c.heap[i], i = c.heap[child], child
		}
		c.now = first.at
		first.do()
	}
}

// move takes size bytes from one machine to another and then calls do there. A packet passes bus and card as a whole,
// one after the other.
func (c *clock) move(from, to *machine, size, latency float64, do func()) {
	if from == to {
		c.at(c.now, do)
		return
	}
	left := from.out.pass(from.bus.pass(c.now, size), size)
	c.at(left+latency, func() { c.at(to.bus.pass(to.in.pass(c.now, size), size), do) })
}

// check compares the results of the ranks with the sum of all ranks' blocks, whose elements are all 1.
func (w *Workload) check(recv [][]byte, width int) error {
	want := make([]byte, w.Blocks*width)
	for v := range w.Sets {
		for i, x := range w.tensor(v, width) {
			want[i] += x
		}
	}
	for v := range recv {
		if !bytes.Equal(recv[v], want) {
			return fmt.Errorf("rank %d has another sum than the ranks' blocks have", v)
		}
	}
	return nil
}

// tensor returns the tensor of a rank in blocks of width bytes: 1 in each element
// of the blocks that it has.
func (w *Workload) tensor(rank, width int) []byte {
	t := make([]byte, w.Blocks*width)
	for b := w.Sets[rank].Next(0); b >= 0; b = w.Sets[rank].Next(b + 1) {
		for i := b * width; i < (b+1)*width; i++ {
			t[i] = 1
		}
	}
	return t
}
