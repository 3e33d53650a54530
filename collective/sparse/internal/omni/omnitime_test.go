package omni_test

import (
	"bytes"
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/collective/sparse/internal/omni"
	"github.com/treerun/treerun/internal/kernel"
)

// Aggregation says how OmniReduce runs.
type Aggregation struct {
	Aggregators int  // machines of their own, or as many of the workers
	OnWorkers   bool // aggregator i is on worker i
	Streams     int
	Columns     int
	Compact     bool
}

// omniRun is one simulation.
type omniRun struct {
	clock
	w           *Workload
	m           Machine
	shape       omni.Shape
	workers     []*omni.Worker
	aggregators []*omni.Aggregator
	hosts       []machine // of workers
	others      []machine // of aggregators; hosts when they are on workers
	result      Result
	err         error
}

// omniTime returns how long Algorithm 1 takes.
func omniTime(w *Workload, m Machine, a Aggregation) (Result, error) {
	n := w.Ranks()
	r := &omniRun{w: w, m: m, hosts: newMachines(m, n, true),
		result: Result{Sent: make([]float64, n), Received: make([]float64, n)}}
	r.others = r.hosts
	if !a.OnWorkers {
		r.others = newMachines(m, a.Aggregators, false)
	}
	r.shape = omni.Shape{Grid: block.Grid{Elements: w.Blocks, Size: 1, Width: 1}, DType: kernel.Uint8, Op: kernel.Sum,
		Workers: n, Aggregators: a.Aggregators, Streams: a.Streams, Columns: a.Columns, Compact: a.Compact}
	for i := range a.Aggregators {
		r.aggregators = append(r.aggregators, omni.NewAggregator(i))
		if err := r.aggregators[i].Begin(1, r.shape); err != nil {
			return Result{}, err
		}
	}
	var recv [][]byte
	for v := range n {
		r.workers = append(r.workers, omni.NewWorker(v))
		recv = append(recv, make([]byte, w.Blocks))
		if err := r.workers[v].Begin(1, r.shape,
			omni.Input{Blocks: w.Sets[v], Send: w.tensor(v, 1), Recv: recv[v]}); err != nil {
			return Result{}, err
		}
	}
	r.at(m.BeginUs*1e3, func() {
		for s := range r.shape.Live() {
			for v := range n {
				r.say(v, s)
			}
		}
	})
	r.run()
	for v := range n {
		if r.err == nil && !r.workers[v].Done() {
			r.err = fmt.Errorf("worker %d does not come to an end", v)
		}
	}
	if r.err == nil {
		r.err = w.check(recv, 1)
	}
	r.result.Us = r.now / 1e3
	return r.result, r.err
}

// size returns what a packet would have on the wire.
func (r *omniRun) size(p []byte) float64 {
	h, err := omni.Decode(p)
	if err != nil {
		r.err = err
	}
	return float64(len(p) + h.Blocks*(r.w.BlockBytes-1))
}

// say moves a worker's packet of a stream to the aggregator.
func (r *omniRun) say(v, stream int) {
	p := make([]byte, r.shape.MaxPacket())
	p = p[:r.workers[v].Compose(stream, p)]
	a := stream % r.shape.Aggregators
	size := r.size(p)
	if &r.hosts[v] != &r.others[a] {
		r.result.Sent[v] += size
	}
	r.move(&r.hosts[v], &r.others[a], size, r.m.LatencyUs*1e3, func() { r.add(a, p) })
}

// add has an aggregator take in a packet, and moves the result to all workers.
func (r *omniRun) add(a int, p []byte) {
	answer, err := r.aggregators[a].Handle(p)
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.err != nil || answer.Packet == nil {
		return
	}
	result := bytes.Clone(answer.Packet)
	size := r.size(result)
	for v := range r.workers {
		if &r.hosts[v] != &r.others[a] {
			r.result.Received[v] += size
		}
		r.move(&r.others[a], &r.hosts[v], size, r.m.LatencyUs*1e3, func() { r.take(v, result) })
	}
}

func (r *omniRun) take(v int, result []byte) {
	step, err := r.workers[v].Handle(result)
	if err != nil && r.err == nil {
		r.err = err
	}
	if r.err == nil && step.Send {
		r.say(v, step.Stream)
	}
}
