package omni

import (
	"fmt"
	"testing"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/sparsetest"
	"github.com/treerun/treerun/internal/kernel"
)

// rig is one worker per rank and one aggregator, whose packets go over without a
// network between them.
type rig struct {
	x       *tensors
	workers []*Worker
	agg     *Aggregator
	recv    [][]byte
	tensor  uint32
	buf     []byte
}

func newRig(workers, elements int, density float64) *rig {
	g := block.Grid{Elements: elements, Size: 256}
	r := &rig{x: shaped(sparsetest.New(workers, g, kernel.Sum, kernel.Float32).Random(seeded(1), density), 1, 16, 16),
		agg: NewAggregator(0)}
	_, r.recv = r.x.Buffers(false)
	for w := range workers {
		r.workers = append(r.workers, NewWorker(w))
	}
	r.buf = make([]byte, r.x.shape.MaxPacket())
	return r
}

// all runs one AllReduce.
func (r *rig) all() {
	r.tensor++
	must(r.agg.Begin(r.tensor, r.x.shape))
	for v, w := range r.workers {
		must(w.Begin(r.tensor, r.x.shape, Input{Blocks: r.x.Sets[v], Send: r.x.Send[v], Recv: r.recv[v], Fill: true}))
	}
	for s := range r.x.shape.Live() {
		for _, w := range r.workers {
			r.say(w, s)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// say gives the aggregator a worker's packet, and all workers the result.
func (r *rig) say(w *Worker, stream int) {
	for turn := []*Worker{w}; len(turn) > 0; {
		answer, err := r.agg.Handle(r.buf[:turn[0].Compose(stream, r.buf)])
		must(err)
		turn = turn[1:]
		if answer.Packet == nil {
			continue
		}
		turn = turn[:0]
		for _, w := range r.workers {
			step, err := w.Handle(answer.Packet)
			must(err)
			if step.Send {
				turn = append(turn, w)
			}
		}
	}
}

// What is allocated does not grow with the number of packets: nothing is for one.
func TestAllocations(t *testing.T) {
	count := func(elements int) float64 {
		r := newRig(3, elements, 0.2)
		r.all()
		return testing.AllocsPerRun(3, r.all)
	}
	few, many := count(256*512), count(256*5120)
	if perRound := (many - few) / (16 * 18); perRound > 3 { // the rig's own list of turns grows
		t.Errorf("%v allocations for 512 blocks, %v for 5120", few, many)
	}
}

// BenchmarkAllReduce counts the bytes of one tensor, all ranks' work on one core.
func BenchmarkAllReduce(b *testing.B) {
	for _, density := range []float64{1, 0.1, 0.01} {
		b.Run(fmt.Sprint(density), func(b *testing.B) {
			r := newRig(4, 4<<20, density)
			b.SetBytes(int64(r.x.Grid.Bytes()))
			for b.Loop() {
				r.all()
			}
		})
	}
}
