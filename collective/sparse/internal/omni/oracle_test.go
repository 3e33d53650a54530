package omni

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
)

// tensors are what the workers of one AllReduce have, and its Shape.
type tensors struct {
	*sparsetest.Tensors
	shape Shape
}

// shaped gives tensors a Shape with so many streams and columns.
func shaped(x *sparsetest.Tensors, aggregators, streams, columns int) *tensors {
	return &tensors{x, Shape{Grid: x.Grid, DType: x.DType, Op: x.Op, Workers: x.Ranks(), Aggregators: aggregators,
		Streams: streams, Columns: columns, Compact: true}}
}

// rounds counts by brute force what Algorithm 1 sends for a column: per round,
// who sends. Round 0 is everybody's first block.
func (x *tensors) rounds(column int) (owners [][]int) {
	s := x.shape
	var everybody []int
	for w := range s.Workers {
		everybody = append(everybody, w)
	}
	owners = append(owners, everybody)
	for b := column + s.Streams*s.Columns; b < s.Grid.Blocks(); b += s.Streams * s.Columns {
		var who []int
		for w := range s.Workers {
			if x.Sets[w].Has(b) {
				who = append(who, w)
			}
		}
		if who != nil {
			owners = append(owners, who)
		}
	}
	return owners
}

// messages returns how many packets the workers send and how many rounds there
// are, over all streams.
func (x *tensors) messages() (sent, rounds int) {
	s := x.shape
	for stream := range s.Live() {
		most := 0
		var columns [][][]int
		for k := range s.width(stream) {
			columns = append(columns, x.rounds(stream*s.Columns+k))
			most = max(most, len(columns[k]))
		}
		rounds += most
		for round := range most {
			senders := map[int]bool{}
			for _, owners := range columns {
				if round < len(owners) {
					for _, w := range owners[round] {
						senders[w] = true
					}
				}
			}
			sent += len(senders)
		}
	}
	return sent, rounds
}

// cluster is all workers and aggregators of a set.
type cluster struct {
	workers     []*Worker
	aggregators []*Aggregator
	tensor      uint32
	recv        [][]byte
	sent        int // packets of workers
	results     int
	blocks      []int // by worker: blocks carried
	bytes       []int // by worker
}

func newCluster(workers, aggregators int) *cluster {
	c := &cluster{blocks: make([]int, workers), bytes: make([]int, workers)}
	for w := range workers {
		c.workers = append(c.workers, NewWorker(w))
	}
	for a := range aggregators {
		c.aggregators = append(c.aggregators, NewAggregator(a))
	}
	return c
}

func (c *cluster) begin(t testing.TB, x *tensors, inPlace bool) {
	t.Helper()
	c.tensor++
	c.sent, c.results = 0, 0
	clear(c.blocks)
	clear(c.bytes)
	send, recv := x.Buffers(inPlace)
	c.recv = recv
	for _, a := range c.aggregators {
		if err := a.Begin(c.tensor, x.shape); err != nil {
			t.Fatal(err)
		}
	}
	for w := range c.workers {
		if err := c.workers[w].Begin(c.tensor, x.shape,
			Input{Blocks: x.Sets[w], Send: send[w], Recv: recv[w], Fill: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// compose returns a packet of a worker and counts it.
func (c *cluster) compose(t testing.TB, s *Shape, w, stream int) []byte {
	t.Helper()
	p := make([]byte, s.MaxPacket())
	p = p[:c.workers[w].Compose(stream, p)]
	h, err := Decode(p)
	if err != nil {
		t.Fatal(err)
	}
	c.sent++
	c.blocks[w] += h.Blocks
	c.bytes[w] += len(p)
	return p
}

// run reduces x over a network that loses nothing and delivers in any order
// that keeps the order of each link.
func (c *cluster) run(t testing.TB, x *tensors, r *rand.Rand, inPlace bool) {
	t.Helper()
	c.begin(t, x, inPlace)
	s := &x.shape
	up, down := map[[2]int][][]byte{}, map[[2]int][][]byte{} // by worker and aggregator
	for w := range c.workers {
		for stream := range s.Live() {
			key := [2]int{w, stream % s.Aggregators}
			up[key] = append(up[key], c.compose(t, s, w, stream))
		}
	}
	for {
		var busy [][3]int
		for w := range s.Workers {
			for a := range s.Aggregators {
				if len(up[[2]int{w, a}]) > 0 {
					busy = append(busy, [3]int{0, w, a})
				}
				if len(down[[2]int{w, a}]) > 0 {
					busy = append(busy, [3]int{1, w, a})
				}
			}
		}
		if len(busy) == 0 {
			break
		}
		b := busy[r.IntN(len(busy))]
		key := [2]int{b[1], b[2]}
		if b[0] == 0 {
			answer, err := c.aggregators[key[1]].Handle(up[key][0])
			up[key] = up[key][1:]
			if err != nil {
				t.Fatal(err)
			}
			if answer.Packet != nil {
				c.results++
				for w := range s.Workers {
					to := [2]int{w, key[1]}
					down[to] = append(down[to], bytes.Clone(answer.Packet))
				}
			}
			continue
		}
		step, err := c.workers[key[0]].Handle(down[key][0])
		down[key] = down[key][1:]
		if err != nil {
			t.Fatal(err)
		}
		if step.Send {
			up[key] = append(up[key], c.compose(t, s, key[0], step.Stream))
		}
	}
	c.check(t, x)
}

// check holds every worker's result against the oracle.
func (c *cluster) check(t testing.TB, x *tensors) {
	t.Helper()
	want := x.Want()
	for w := range c.workers {
		if !c.workers[w].Done() {
			t.Fatalf("worker %d is not done", w)
		}
		if d := x.Differ(w, c.recv[w], want); d != "" {
			t.Fatal(d)
		}
	}
	for i, a := range c.aggregators {
		if !a.Done() {
			t.Fatalf("aggregator %d is not done", i)
		}
	}
}
