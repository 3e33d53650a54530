package drive

import (
	"fmt"

	"github.com/treerun/treerun/collective/sparse/internal/omni"
	"github.com/treerun/treerun/internal/waits"
	"github.com/treerun/treerun/transport"
)

// Omni runs Algorithm 1: this rank's worker, or its aggregator, or both. Aggregator a is the root
// of tree a of its Links, a star. It is used
// again for one tensor after the other.
type Omni struct {
	Carried

	links  *Links
	aggs   []int        // trees, by aggregator
	own    int          // the aggregator on this rank, -1 for none
	worker *omni.Worker // nil: this rank only aggregates
	agg    *omni.Aggregator
	head   transport.Header
	buf    []byte
	queues [][]int // by aggregator: streams with a packet to send
	open   []int   // by aggregator: streams that have not ended here

	result []byte // of the own aggregator, while some workers have not got it
	unsent []int  // children who have not
}

// NewOmni makes the exchanges of a rank, which is this one of the workers, or none: -1.
// aggs are the trees of the aggregators.
func NewOmni(k *Links, aggs []int, worker int) *Omni {
	o := &Omni{links: k, aggs: aggs, own: -1, queues: make([][]int, len(aggs))}
	if worker >= 0 {
		o.worker = omni.NewWorker(worker)
	}
	for a, t := range aggs {
		if k.trees[t].root == k.rank {
			o.own, o.agg = a, omni.NewAggregator(a)
		}
	}
	return o
}

// Begin starts the next tensor, which has the same number on all ranks. A rank that only
// aggregates has no use for in.
func (o *Omni) Begin(tensor uint32, s omni.Shape, in omni.Input) error {
	o.Carried = Carried{}
	o.head = transport.Header{Seq: uint64(tensor), Count: uint64(s.Grid.Elements), Op: uint8(s.Op), DType: uint8(s.DType),
		Root: -1}
	if o.agg != nil {
		if err := o.agg.Begin(tensor, s); err != nil {
			return err
		}
	}
	if n := s.MaxPacket(); cap(o.buf) < n {
		o.buf = make([]byte, n)
	}
	o.open = append(o.open[:0], make([]int, len(o.aggs))...)
	if o.worker == nil {
		return nil
	}
	if err := o.worker.Begin(tensor, s, in); err != nil {
		return err
	}
	for stream := range s.Live() {
		o.open[stream%len(o.aggs)]++
		a := stream % len(o.aggs)
		o.queues[a] = append(o.queues[a], stream)
	}
	return nil
}

// Done reports whether worker and aggregator of this rank are done, and the
// workers have been sent all results.
func (o *Omni) Done() bool {
	return o.workerDone() && (o.agg == nil || o.agg.Done()) && len(o.unsent) == 0
}

func (o *Omni) workerDone() bool { return o.worker == nil || o.worker.Done() }

// Poll moves what can be moved now.
func (o *Omni) Poll() (moved bool, err error) {
	if len(o.unsent) > 0 {
		if moved, err = o.sendResult(); err != nil {
			return moved, err
		}
	}
	for a := range o.aggs {
		sent, err := o.ask(a)
		if err != nil {
			return moved, err
		}
		got, err := o.takeResults(a)
		if err != nil {
			return moved, err
		}
		moved = moved || sent || got
	}
	got, err := o.aggregate()
	return moved || got, err
}

// ask sends aggregator a what the worker has for it, as far as there is room.
func (o *Omni) ask(a int) (moved bool, err error) {
	for len(o.queues[a]) > 0 {
		if a == o.own && len(o.unsent) > 0 {
			return moved, nil
		}
		stream := o.queues[a][0]
		if a == o.own {
			o.queues[a] = o.queues[a][:copy(o.queues[a], o.queues[a][1:])]
			if err := o.handle(o.buf[:o.worker.Compose(stream, o.buf[:cap(o.buf)])], o.links.rank); err != nil {
				return moved, err
			}
			moved = true
			continue
		}
		e := &o.links.trees[o.aggs[a]]
		_, ok, err := e.toParent.TryReserve(0)
		if err != nil || !ok {
			return moved, failed("sending to the aggregator on", e.parent, err)
		}
		n := o.worker.Compose(stream, o.buf[:cap(o.buf)])
		window, ok, err := e.toParent.TryReserve(n)
		if err != nil || !ok {
			return moved, failed("sending to the aggregator on", e.parent, err)
		}
		o.queues[a] = o.queues[a][:copy(o.queues[a], o.queues[a][1:])]
		copy(window, o.buf[:n])
		e.toParent.Commit(&o.head)
		o.sent(n)
		blocks := blocksOf(o.buf[:n])
		o.SentBlocks += blocks
		o.WorkerBlocks += blocks
		o.WorkerBytes += int64(n)
		moved = true
	}
	return moved, nil
}

// takeResults handles what has come from aggregator a.
func (o *Omni) takeResults(a int) (moved bool, err error) {
	e := &o.links.trees[o.aggs[a]]
	for a != o.own && o.open[a] > 0 { // an aggregator that is done may have closed
		packet, ok, err := o.peek(e.ofParent)
		if err != nil || !ok {
			return moved, failed("receiving from the aggregator on", e.parent, err)
		}
		err = o.store(packet)
		e.ofParent.Release()
		if err != nil {
			return moved, failed("a result from the aggregator on", e.parent, err)
		}
		moved = true
	}
	return moved, nil
}

// peek returns the next packet of a link.
func (o *Omni) peek(r transport.Receiver) ([]byte, bool, error) {
	var h transport.Header
	packet, ok, err := r.TryPeek(&h)
	if err != nil || !ok {
		return nil, false, err
	}
	if h != o.head {
		return nil, false, fmt.Errorf("%w: it is of another call (number %d, %d elements)", omni.ErrMismatch, h.Seq, h.Count)
	}
	o.received(len(packet))
	o.ReceivedBlocks += blocksOf(packet)
	return packet, true, nil
}

// blocksOf returns how many blocks a packet carries, 0 for what is none.
func blocksOf(packet []byte) int64 {
	h, err := omni.Decode(packet)
	if err != nil {
		return 0
	}
	return int64(h.Blocks)
}

// store gives the worker a result.
func (o *Omni) store(packet []byte) error {
	step, err := o.worker.Handle(packet)
	o.Union += int(blocksOf(packet))
	if err != nil {
		return err
	}
	a := step.Stream % len(o.aggs)
	if step.Send {
		o.queues[a] = append(o.queues[a], step.Stream)
	}
	if step.Ended {
		o.open[a]--
	}
	return nil
}

// aggregate handles what has come from workers, until there is a result that not
// all of them can be sent.
func (o *Omni) aggregate() (moved bool, err error) {
	if o.agg == nil || o.agg.Done() {
		return false, nil
	}
	for _, c := range o.links.trees[o.aggs[o.own]].children {
		for len(o.unsent) == 0 && !o.agg.Done() {
			packet, ok, err := o.peek(c.of)
			if err != nil {
				return moved, failed("receiving from the worker on", c.rank, err)
			}
			if !ok {
				break
			}
			err = o.handle(packet, c.rank)
			c.of.Release()
			if err != nil {
				return moved, err
			}
			moved = true
		}
	}
	return moved, nil
}

// handle gives the aggregator a packet of the worker on a rank.
func (o *Omni) handle(packet []byte, rank int) error {
	answer, err := o.agg.Handle(packet)
	if err != nil {
		return failed("a packet of the worker on", rank, err)
	}
	if answer.Packet == nil {
		return nil
	}
	o.result, o.unsent = answer.Packet, o.unsent[:0]
	for i := range o.links.trees[o.aggs[o.own]].children {
		o.unsent = append(o.unsent, i)
	}
	if _, err := o.sendResult(); err != nil {
		return err
	}
	if o.worker == nil {
		return nil
	}
	return failed("a result of the aggregator on", o.links.rank, o.store(answer.Packet))
}

// sendResult sends the result to the workers that have not got it and have room:
// it is written once for all of them.
func (o *Omni) sendResult() (moved bool, err error) {
	children := o.links.trees[o.aggs[o.own]].children
	var lender transport.Sender
	var ready []transport.Sender
	wait := o.unsent[:0]
	for _, i := range o.unsent {
		c := &children[i]
		n := 0 // the others read the first one's slot
		if lender == nil {
			n = len(o.result)
		}
		window, ok, err := c.to.TryReserve(n)
		switch {
		case err != nil:
			return moved, failed("sending a result to", c.rank, err)
		case !ok:
			wait = append(wait, i)
			continue
		case lender == nil:
			copy(window, o.result)
			lender = c.to
		default:
			ready = append(ready, c.to)
		}
		o.sent(len(o.result))
		o.SentBlocks += blocksOf(o.result)
	}
	o.unsent = wait
	if lender == nil {
		return false, nil
	}
	for _, to := range ready {
		to.Share(&o.head, lender)
	}
	lender.Commit(&o.head)
	for _, to := range ready {
		to.Wake()
	}
	return true, nil
}

// WaitsFor says what is missing.
func (o *Omni) WaitsFor() []waits.Lack {
	if len(o.unsent) > 0 {
		c := o.links.trees[o.aggs[o.own]].children[o.unsent[0]]
		return []waits.Lack{{Rank: c.rank, What: "to take a result"}}
	}
	for a, t := range o.aggs {
		if len(o.queues[a]) > 0 && a != o.own {
			return []waits.Lack{{Rank: o.links.trees[t].root, What: "to take a block, as an aggregator"}}
		}
	}
	if !o.workerDone() {
		return []waits.Lack{{Rank: -1, What: "results of the aggregators"}}
	}
	return []waits.Lack{{Rank: -1, What: "blocks of other workers"}}
}
